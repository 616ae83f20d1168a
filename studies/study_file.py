# SPDX-License-Identifier: Apache-2.0
"""The study file: a job, what differs between its runs, and how often each is run.

The docstrings and descriptions are the documentation of the file (`ldapslam describe
study`), as those of jobs/model.py are of the job file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ldapslam.base.fault import Fault, expected, unknown
from ldapslam.base.units import parse_cpus
from ldapslam.jobs.fields.connection import Bind, Tls
from ldapslam.jobs.fields.sections import (
    Count,
    Duration,
    Flag,
    Found,
    Kind,
    Name,
    PositiveDuration,
    Section,
    Text,
    checked,
)
from ldapslam.jobs.load import load_section
from ldapslam.jobs.schema import head, section_schema
from ldapslam.studies.figures import Column

Value = Annotated[str | int | float | bool, Kind("value")]

Anything = Annotated[Any, Kind("value")]

#: The axis of numbers of agents, and the axis of the jobs of a study.
AGENTS, JOB = "agents", "job"
#: What begins a field of the study's lab, not of the job.
LAB = "lab."
_NS_PER_MINUTE = 60 * 10**9


class Setting(Section):
    """An attribute of a server's configuration, changed over LDAP. What it was is on
    disk before it is changed; it is put back at the end, or by `study --restore`. Until
    then, other studies of this user on this host do not change the server."""

    target: Name = Field(examples=["supplier"])
    """the target role in the job; its servers are changed"""
    entry: Text = Field(examples=["cn=config"])
    """DN of the entry that has it"""
    attribute: Text = Field(examples=["nsslapd-cachememsize"])
    """its name"""


class Axis(Section):
    """What differs between points. A list alone is `values`."""

    exactly_one: ClassVar[tuple[str, ...]] = ("values", "variants")

    values: list[Value] | None = Field(default=None, min_length=1)
    """its values, one for each point"""
    variants: dict[Name, dict[Text, Value]] | None = Field(default=None, min_length=1)
    """instead: names, each with what it sets: variables or fields of the job, or
    lab.KEY for a lab of its own"""
    field: Text | None = None
    """the field of the job that the values are of, such as run.duration, or of the lab,
    such as lab.folder; without it and `setting`, the variable of the axis' name;
    `agents` is the number of agents"""
    setting: Setting | None = None
    """the server's setting that the values are of"""

    @checked
    def _values_are_of_one_thing(self) -> None:
        given = [key for key in ("field", "setting") if getattr(self, key)]
        if len(given) > 1 or (given and self.variants):
            raise Fault(
                f"{' and '.join(given)} do not go together"
                if len(given) > 1
                else f"variants say themselves what they set, {given[0]} does not go",
                "keep one",
            )

    def labels(self) -> list[Value]:
        return list(self.values or self.variants or ())


class Hook(Section):
    """A command of this host. Its environment has AXIS_NAME=value for each axis, and
    LDAPSLAM_POINT. It fails the run that it is for, if it fails. It is for the job's
    own servers: with `--lab`, it is not run."""

    command: list[Text] = Field(min_length=1, examples=["[./restart.sh]"])
    """the program and its arguments; no shell"""
    timeout_ns: PositiveDuration = 5 * _NS_PER_MINUTE
    """how long it may take"""


def _axis(value: Any) -> Any:
    return {"values": value} if isinstance(value, list) else value


class StudyJob(Section):
    """One of several jobs. A text alone is `job`."""

    job: Text = Field(examples=["search.yaml"])
    """the job file, relative to this file"""
    vars: dict[Text, Value] = Field(default_factory=dict)
    """values of its variables"""


def _job(value: Any) -> Any:
    return {"job": value} if isinstance(value, str) else value


def _by_name(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    texts = [one for one in value if isinstance(one, str)] or ["search.yaml"]
    named = ", ".join(f"{PurePath(one).stem}: {one}" for one in texts)
    raise expected("a mapping", value, f"give each a name: jobs: {{{named}}}")


class StudyLab(Section):
    """With `--lab`, throw-away servers on this host take the place of the job's
    targets and `bind`; docs/how-to/labs.md says more of each key. A role of the job
    gets the server of its name (supplier, replica1 …), `replica` the first replica, and
    any other role the supplier."""

    server: Literal["slapd", "389ds"] = "slapd"
    """which directory server"""
    replicas: Annotated[int, Field(ge=0, le=20)] = 0
    """servers that follow the supplier"""
    entries: Count = 1000
    """people in the tree"""
    settings: dict[Text, Value | list[Value]] = Field(default_factory=dict)
    """settings of all servers, such as {threads: 8}"""
    binary: Text | None = None
    """slapd or ns-slapd of a build under test"""
    cpus: Annotated[Text | int, Kind("value")] | None = Field(None, examples=["0-3"])
    """CPUs that the servers run on, so that others are left for agents on this host"""
    folder: Text | None = None
    """where the data are; TMPDIR when left out"""
    changes: dict[Text, Anything] = Field(default_factory=dict)
    """what is smaller in this file with `--lab`: paths and values, as of `--set`, such
    as {vars.users: 1000, repeats: 1}"""
    every_run: Flag = False
    """begin each run with new servers, else when the lab of the next point differs"""

    @checked
    def _cpus_are_a_list(self) -> Iterator[Found]:
        try:
            parse_cpus(self.cpus or 0)
        except Fault as fault:
            yield ("cpus",), fault


#: A figure, or those of several runs.
Published = Value | list[float]


class StudyTable(Section):
    """Figures of each point, with published figures. The columns are names with the
    figure that each shows."""

    title: Text
    """what the table says"""
    source: str = ""
    """where the published figures are from"""
    columns: dict[Text, Text] = Field(min_length=1)
    """names and the figure of each, such as {searches/s: readers.search.throughput}"""
    published: list[dict[Text, Published]] = Field(default_factory=list)
    """rows: values of axes, which name the point, and values of columns; a list is of
    the original's runs"""

    @checked
    def _columns_are_figures(self) -> Iterator[Found]:
        for name, text in self.columns.items():
            try:
                Column.of(text)
            except Fault as fault:
                yield ("columns", name), fault

    @property
    def figures(self) -> Mapping[str, Column]:
        return {name: Column.of(text) for name, text in self.columns.items()}


class Study(Section):
    """Every combination of the axes' values is a point, and is run `repeats` times;
    each is an ordinary run with a verdict of its own."""

    exactly_one: ClassVar[tuple[str, ...]] = (JOB, "jobs")

    name: Name = Field(examples=["cache-size"])
    """the study's name"""
    description: str = ""
    """what it is to answer, for the report"""
    job: Text | None = Field(default=None, examples=["search.yaml"])
    """the job file, relative to this file"""
    jobs: Annotated[
        dict[Name, Annotated[StudyJob, BeforeValidator(_job)]] | None,
        BeforeValidator(_by_name),
    ] = Field(default=None, min_length=1)
    """instead: several by name, which are the values of an axis `job`"""
    vars: dict[Text, Value] = Field(default_factory=dict)
    """values of variables of the job, the same for all points; `${name}` uses them in
    this file too, and `--var` gives others"""
    fields: dict[Text, Anything] = Field(default_factory=dict)
    """fields of the job that are others at all points, such as {run.interval: 5s}"""
    axes: dict[Name, Annotated[Axis, BeforeValidator(_axis)]] = Field(
        default_factory=dict
    )
    """what differs between points"""
    leave_out: list[dict[Name, Value]] = Field(default_factory=list)
    """combinations that are no points"""
    repeats: Count = 1
    """runs of each point; three at least for a comparison"""
    order: Literal["interleaved", "random", "as_written"] = "interleaved"
    """interleaved: all points once, in a random order, then again; random: all
    runs in one drawn order; as_written: a point's repeats one after the other"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    """of the drawn order"""
    attempts: Count = 2
    """maximum number of runs for a repeat: INVALID or failed starts are repeated"""
    settle_ns: Duration = 0
    """pause before each run"""
    before: Hook | None = None
    """run before each run, such as a restart of the server"""
    after: Hook | None = None
    """run after each run"""
    bind: Bind | None = None
    """who may change the settings of servers"""
    tls: Tls = Tls()
    """of the connections that change settings"""
    compare: Name | None = None
    """the axis to compare: its values with its first value"""
    table: StudyTable | None = None
    """the answer as a table"""
    lab: StudyLab | None = None
    """what `--lab` brings up"""

    @checked
    def _names_are_axes(self) -> Iterator[Found]:
        if JOB in self.axes:
            yield ("axes", JOB), Fault("this name is of the study's jobs", "rename it")
        axes = [*self.axes, *([JOB] if self.jobs else [])]
        if self.compare is not None and self.compare not in axes:
            yield ("compare",), unknown("axis", self.compare, axes, "axes")
        for index, one in enumerate(self.leave_out):
            for name in one:
                if name not in axes:
                    yield ("leave_out", index), unknown("axis", name, axes, "axes")
        if (shown := self.table) is not None:
            columns = shown.columns
            for name in columns:
                if name in axes:
                    yield ("table", "columns", name), Fault("an axis has this name", "")
            seen: list[list[Published | None]] = []
            for index, row in enumerate(shown.published):
                where = ("table", "published", index)
                for name, value in row.items():
                    if name not in (*axes, *columns):
                        known_names = [*axes, *columns]
                        yield where, unknown("axis or column", name, known_names)
                    elif isinstance(value, list) and (name in axes or not value):
                        fault = Fault("a list has figures of runs", "give one value")
                        yield (*where, name), fault
                if missing := [name for name in axes if name not in row]:
                    reason = f"it has no value of {missing[0]}"
                    yield where, Fault(reason, "a row names a point by all of its axes")
                if (at := [row.get(name) for name in axes]) in seen:
                    yield where, Fault("the point is there twice", "keep one row")
                seen.append(at)

    @checked
    def _settings_need_an_identity(self) -> None:
        if self.changes_servers and self.bind is None:
            raise Fault(
                "an axis changes a server's setting, and nobody is named who may",
                "add bind: {dn: …, password: {env: …}}",
            )

    @checked
    def _points_differ(self) -> None:
        if not self.axes and self.jobs is None:
            raise Fault("neither axes nor jobs: all runs would be the same", "add axes")

    @property
    def changes_servers(self) -> bool:
        return any(axis.setting for axis in self.axes.values())

    @property
    def labels(self) -> Mapping[str, Sequence[Value]]:
        """The values of each axis, that of the jobs first."""
        by_job = {JOB: list(self.jobs)} if self.jobs else {}
        return {**by_job, **{name: one.labels() for name, one in self.axes.items()}}


def study_schema() -> dict[str, Any]:
    """The JSON Schema of study files."""
    schema = section_schema(Study)
    definitions = schema["$defs"]
    # what alone stands for the section
    values = definitions["Axis"]["properties"]["values"]
    short = {"Axis": values, "StudyJob": {"type": "string"}}
    for name, alone in short.items():
        definitions[name] = {"anyOf": [alone, definitions[name]]}
    return {**head("study"), **schema}


def load_study(
    path: Path, overrides: Sequence[str] = (), *, in_lab: bool = False
) -> Study:
    """Return the study of a file, changed by `--set` overrides and, for a lab, before
    them by its own section for labs; JobErrors with all faults."""
    return load_section(path, Study, overrides, own=("lab", "changes") * in_lab)
