# SPDX-License-Identifier: Apache-2.0
"""Baselines of a gate: the figures of runs that were good, in a file that a repository
can keep, with how they were made and what they took the place of. Pure but for the
file."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ldapslam.base.errors import ConfigError, NotAsJudged
from ldapslam.base.files import write_private
from ldapslam.base.inert import one_line
from ldapslam.base.names import checked_name
from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.comparing.making import (
    READ,
    UNREAD,
    facts_of,
    instead_of,
    shows_before,
)
from ldapslam.reports.document import NOTHING, Table, column, number, table
from ldapslam.reports.figures import (
    METRICS,
    Figure,
    Readings,
    metric_of,
    names_of,
    readings_of,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.typeset import value_text
from ldapslam.studies.gate import mean_of_runs

SCHEMA = "ldapslam-baseline/1"
#: Runs of a baseline: fewer do not show what varies from run to run.
FEWEST = 5
#: What a gate is for.
_UNDER_TEST = re.compile(
    r"server \d+ · (monitor |vendor )?(version|vendor)|lab · version|ldapslam"
)
#: Differences that an error shows.
_MOST_SHOWN = 5
#: Fields of a job that options of the command line have.
_VARIABLES = "job file · vars · "
_OPTIONS = {_VARIABLES: "--var ", "job file · run · ": "--set run."}
_ABSENT = "not there"
_NONE: Mapping[str, float | None] = {}


_Name = Annotated[str, AfterValidator(checked_name)]
_Line = Annotated[str, AfterValidator(one_line)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaselineRun(_Model):
    """A run of the baseline."""

    run_id: _Name
    t0_utc: _Line
    #: Operation -> metric -> value in units of result.json; None where it has none.
    figures: Mapping[_Line, Mapping[str, float | None]]
    #: Operation -> the requests that its share of errors is of.
    requests: Mapping[str, int]
    #: What else the host did, as a gate's run has it.
    other_cpu_share: float | None = None

    @property
    def readings(self) -> Readings:
        return {
            name: Figure(
                **vars(name),
                value=value,
                sample=self.requests.get(title, 0),
                needs="" if value is not None else "this figure in every run",
            )
            for title, of_title in self.figures.items()
            for metric, value in of_title.items()
            if metric in METRICS
            for name in [METRICS[metric].of(title)]
        }


class Baseline(_Model):
    """The content of the file."""

    schema_name: str = SCHEMA
    job: _Name
    saved_utc: _Line
    saved_by: _Line
    #: How all runs were made, as `compare` has it.
    facts: Mapping[_Line, _Line | None]
    runs: Annotated[tuple[BaselineRun, ...], Field(min_length=FEWEST)]
    #: Runs that were left out because they FAIL: the new side may have as many.
    failed: int = 0

    def means(self) -> dict[str, dict[str, float | None]]:
        """Return the mean of each figure over the runs; geometric except for errors."""
        runs = [one.readings for one in self.runs]
        found: dict[str, dict[str, float | None]] = {}
        for name in dict.fromkeys(name for one in runs for name in one):
            readings = [one.get(name) for one in runs]
            values = [one.value if one else None for one in readings]
            found.setdefault(name.title, {})[name.short] = mean_of_runs(name, values)
        return found

    @property
    def days(self) -> list[str]:
        """On which each of its runs was made."""
        return [one.t0_utc[:10] for one in self.runs]

    def differences(self, summary: Summary) -> Iterator[tuple[str, str, str]]:
        """Return fact, old and new value of the differences of a run from the baseline
        that are not under test, and of facts that were readable on one side only."""
        return _differences(self.facts, facts_of(summary, without_places=True))

    def differences_before(
        self, planned: Mapping[str, str], *, in_lab: bool
    ) -> Iterator[tuple[str, str, str]]:
        """Those that show before any run (`facts_before`)."""
        return _differences(
            {
                name: text
                for name, text in self.facts.items()
                if shows_before(name, in_lab=in_lab)
            },
            planned,
        )

    def missing(self, metrics: Collection[str]) -> Iterator[FigureName]:
        """Figures that not all of its runs have."""
        for title, of_title in self.means().items():
            for name in metrics:
                if name not in METRICS or of_title.get(name, 0.0) is None:
                    yield metric_of(name).of(title)

    def unknown(self, summary: Summary) -> dict[str, str]:
        """What of the servers could not be read, then or now, and why: whether it is
        the same is not known."""
        return _unread(self.facts) | _unread(facts_of(summary, without_places=True))


def _differences(
    before: Mapping[str, str | None], now: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    found = list(_all_differences(before, now))
    of_job = [name for name, *_ in found if name.startswith("job file")]
    # without an effect on the job
    is_same_job = all(name.startswith(_VARIABLES) for name in of_job)
    yield from (one for one in found if not is_same_job or one[0] not in of_job)


def _all_differences(
    before: Mapping[str, str | None], now: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    was_unread, is_unread = _unread(before), _unread(now)
    for name in dict.fromkeys((*before, *now)):
        if name in was_unread or name in is_unread:
            was, is_now = was_unread.get(name, READ), is_unread.get(name, READ)
            differs = READ in (was, is_now)
        else:
            was = before.get(name) or instead_of(name, was_unread) or _ABSENT
            is_now = now.get(name) or instead_of(name, is_unread) or _ABSENT
            differs = was != is_now and not UNREAD & {was, is_now}
        if differs and not _UNDER_TEST.fullmatch(name):
            yield name, was, is_now


def refusal(differences: Sequence[tuple[str, str, str]]) -> ConfigError:
    """The error of a baseline that differs so; with the options that make the job that
    of the baseline, where they do."""
    shown = "; ".join(
        f"{name}: {was} then, {now} now" for name, was, now in differences[:_MOST_SHOWN]
    )
    options = [
        f"{option}{name.removeprefix(place).replace(' · ', '.').replace(' ', '_')}="
        + shlex.quote(was)
        for name, was, _ in differences
        for place, option in _OPTIONS.items()
        if name.startswith(place) and was != _ABSENT
    ]
    as_then = f"give {' '.join(options)}, as then; or " if options else ""
    more = len(differences) - _MOST_SHOWN
    return ConfigError(
        f"the baseline was made in another way: {shown}"
        + f"; and {more} more" * (more > 0),
        hint=f"{as_then}save a new baseline, or give --allow-differences: the report "
        "says how",
    )


def _unread(facts: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in facts.items() if text in UNREAD}


def baseline_of(
    summaries: Sequence[Summary],
    *,
    saved_utc: str,
    saved_by: str,
    other_cpu_shares: Mapping[str, float | None] = _NONE,
    of_gates: Collection[str] = (),
) -> Baseline:
    """Return the baseline of the runs that PASS; ConfigError if they are fewer than
    FEWEST, or differ in their making. `other_cpu_shares`: by the ids of runs.
    `of_gates`: the ids of runs that are also taken where they were too short for a
    threshold, which a gate does not need."""
    valid = [one for one in summaries if _is_good(one, of_gates)]
    if len(valid) < FEWEST:
        counts = Counter(
            f"{verdict}: {why}" for _, verdict, why in _others(summaries, of_gates)
        )
        others = "".join(f"; {count} {why}" for why, count in counts.items())
        raise ConfigError(
            f"a baseline needs {FEWEST} runs at least that PASS, got {len(valid)}"
            + others,
            hint="fewer do not show what varies from run to run",
        )
    facts = [facts_of(one, without_places=True) for one in valid]
    for other, run in zip(facts[1:], valid[1:], strict=True):
        for name in dict.fromkeys((*facts[0], *other)):
            if facts[0].get(name) != other.get(name):
                raise ConfigError(
                    f"the runs were not made alike: {name} is "
                    f"{facts[0].get(name, _ABSENT)!r} in {valid[0].run.run_id}, "
                    f"{other.get(name, _ABSENT)!r} in {run.run.run_id}",
                    hint="take runs of one job, on the same servers and hosts",
                )
    return Baseline(
        job=valid[0].run.job_name,
        saved_utc=saved_utc,
        saved_by=saved_by,
        facts=facts[0],
        runs=tuple(
            BaselineRun(
                run_id=one.run.run_id,
                t0_utc=one.run.t0_utc or "",
                figures=figures_of(readings_of(one.figures)),
                requests={
                    figure.title: figure.sample
                    for figure in readings_of(one.figures).values()
                    if figure.short == "errors"
                },
                other_cpu_share=other_cpu_shares.get(one.run.run_id),
            )
            for one in valid
        ),
        failed=sum(one.verdict == "FAIL" for one in summaries),
    )


def _is_good(one: Summary, of_gates: Collection[str]) -> bool:
    is_too_short = bool(one.uncertain) and one.run.run_id in of_gates
    return one.is_judged and (one.verdict == "PASS" or is_too_short)


def _others(
    summaries: Sequence[Summary], of_gates: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """The runs that a baseline is not made of: id, verdict, and why."""
    for one in summaries:
        if not _is_good(one, of_gates):
            why = "; ".join(one.reasons) or "it was not judged"
            yield one.run.run_id, one.verdict, why


def left_out(summaries: Sequence[Summary], of_gates: Collection[str] = ()) -> list[str]:
    """The runs that a baseline is not made of, each with why."""
    found = _others(summaries, of_gates)
    return [f"{run_id} is {verdict}: {why}" for run_id, verdict, why in found]


def baseline_tables(of: Baseline) -> tuple[Table, ...]:
    """The figures, and how the runs were made."""
    return (
        table(
            "baseline-figures",
            f"Baseline of {of.job}: means of {len(of.runs)} runs, saved {of.saved_utc} "
            f"by {of.saved_by}",
            [
                (title, METRICS[name], value)
                for title, of_title in of.means().items()
                for name, value in of_title.items()
                if name in METRICS
            ],
            column("Operation", lambda row: row[0]),
            column("Metric", lambda row: row[1].heading),
            number("mean", lambda row: value_text(row[1], row[2])),
        ),
        table(
            "baseline-facts",
            "How its runs were made",
            of.facts.items(),
            column("", lambda row: row[0]),
            column("is", lambda row: row[1] or NOTHING),
        ),
    )


def figures_of(readings: Readings) -> dict[str, dict[str, float | None]]:
    """Return title -> metric -> value, of the metrics that runs are compared by."""
    found: dict[str, dict[str, float | None]] = {}
    for name in names_of([readings]):
        found.setdefault(name.title, {})[name.short] = readings[name].value
    return found


def load_baseline(path: Path) -> Baseline:
    """ConfigError when it is none, or of another version of the tool."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(
            f"the baseline {str(path)!r} cannot be read: {why}",
            hint="`ldapslam results baseline` makes one",
        ) from error
    try:
        found = Baseline.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(
            f"{str(path)!r} is no baseline: {where}: {first['msg']}",
            hint="`ldapslam results baseline` makes one",
        ) from error
    if found.schema_name != SCHEMA:
        raise ConfigError(
            f"{str(path)!r} is a baseline of {found.schema_name!r}, this is {SCHEMA!r}",
            hint="save it again with this version",
        )
    return found


class GateRun(BaseModel):
    """A run of a gate's store. What it is worth only the store tells."""

    side: str = ""
    #: Empty: its server could not be used.
    run_id: Annotated[str, AfterValidator(lambda text: text and checked_name(text))]
    pilot: bool = False
    other_cpu_share: float | None = None


class GateFile(BaseModel):
    """What others read of a gate.json."""

    runs: tuple[GateRun, ...]
    sides: Mapping[str, str] = {}
    answer: _Line = ""


def read_gate(folder: Path) -> GateFile | None:
    """The gate of this folder, None without one; NotAsJudged where it is no gate's."""
    path = folder / "gate.json"
    if not path.is_file():
        return None
    try:
        return GateFile.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise NotAsJudged(one_line(f"{path} is no gate's: {error}")) from error


def save_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file; a reader never sees half of it."""
    write_private(path, f"{baseline.model_dump_json(indent=1)}\n".encode())
