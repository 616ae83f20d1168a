# SPDX-License-Identifier: Apache-2.0
"""Job types: what each makes of its options, and where its faults are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml

from ldapslam.base.errors import JobErrors
from ldapslam.base.fault import Fault
from ldapslam.jobs import types
from ldapslam.jobs.fields.sections import FileName, Section, fields_of
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.requests.template import SEQUENCE
from ldapslam.jobs.types import base, job_types
from ldapslam.jobs.types.base import PYTHON_JOBS, JobType

BASE = "ou=people,dc=example,dc=com"
USER = "(uid=user.[0-999])"
TEXT = """\
name: test
targets: {directory: ldap://ds1}
run: {duration: 10s}
streams:
  - name: load
    target: directory
    load: {clients: 4}
"""


def job_of(type_name: str, options: Any, extra: str = "", **files: bytes) -> Job:
    rest = yaml.safe_dump({"type": type_name, "options": options}, sort_keys=False)
    indented = "".join(f"    {line}\n" for line in rest.splitlines())
    return load_job_text(TEXT + indented + extra, file="job", base=None, files=files)


def stream_of(type_name: str, options: Any, extra: str = "") -> Stream:
    return job_of(type_name, options, extra).streams[0]


def faults_of(type_name: str, options: Any, extra: str = "") -> list[str]:
    with pytest.raises(JobErrors) as caught:
        stream_of(type_name, options, extra)
    assert all(fault.line and fault.hint for fault in caught.value.faults)
    return [f"{fault.path}: {fault.reason}" for fault in caught.value.faults]


def test_auth_finds_an_entry_and_binds_as_it() -> None:
    options = {"base": BASE, "filter": USER, "password": "password.[0-9]"}
    stream = stream_of("auth", options)
    assert stream.request_names == [("search", "search"), ("bind", "bind")]
    (operation,) = stream.operations
    assert operation.sequence is not None
    search, bind = operation.sequence
    assert search.capture == {"dn": "dn"}
    assert search.body.model_dump()["attributes"] == ["1.1"]
    assert bind.body.model_dump()["dn"] == "[dn]"
    assert bind.body.model_dump()["password"] == "password.[0-9]"
    assert bind.expect is None


def test_auth_may_expect_failures_and_unbind_after_each_login() -> None:
    options = {
        "base": BASE,
        "filter": USER,
        "password": "x",
        "expect": ["success", 49],
        "unbind": True,
    }
    stream = stream_of("auth", options)
    steps = stream.operations[0].sequence or []
    assert [step.kind for step in steps] == ["search", "bind", "unbind"]
    assert steps[1].expect == [0, 49]


def test_search_modify_changes_what_it_has_found() -> None:
    options = {
        "base": BASE,
        "filter": USER,
        "replace": {"description": "[random:8]"},
        "modifies": 3,
    }
    steps = stream_of("search_modify", options).operations[0].sequence or []
    assert [(step.kind, step.repeat) for step in steps] == [
        ("search", 1),
        ("modify", 3),
    ]
    assert steps[1].body.model_dump()["replace"] == {"description": ["[random:8]"]}


def test_burst_connects_for_every_search() -> None:
    extra = "    connection: {connect_timeout: 2s}\n"
    stream = stream_of("burst", {"base": BASE, "filter": USER}, extra)
    assert stream.request_names == [("search", "search")]
    assert stream.connection.per_operation
    assert stream.connection.connect_timeout_ns == 2_000_000_000


def test_prime_searches_each_key_once_and_ends() -> None:
    job = job_of("prime", {"base": BASE, "filter": "(uid=user.[5:1005%000000))"})
    (stream,) = job.streams
    assert stream.count == 1000
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    (value,) = plan.operations[0].template.values
    assert (value.kind, value.lo, value.hi, value.width) == (SEQUENCE, 5, 1004, 6)
    assert plan.total_operations == 1000


def test_run_of_counted_streams_needs_no_duration() -> None:
    text = TEXT.replace("run: {duration: 10s}", "run: {interval: 1s}")
    options = f'{{base: "{BASE}", filter: "(uid=[0:9])"}}'
    prime = f"    type: prime\n    options: {options}\n"
    job = load_job_text(text + prime, file="job", base=None)
    assert job.run.duration_ns == 24 * 3600 * 10**9
    with pytest.raises(JobErrors, match="the key 'duration' is missing"):
        load_job_text(
            text + '    operations: [{search: {base: ""}}]\n', file="job", base=None
        )


def test_python_class_drives_a_stream() -> None:
    options = {
        "class": "my_load.jobs:Login",
        "operations": ["login", "logout"],
        "options": {"users": [1, 2]},
    }
    text = TEXT + f"    python: {json.dumps(options)}\n"
    job = load_job_text(text, file="job", base=None)
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    assert plan.engine == "python"
    assert plan.python is not None
    assert plan.python.class_path == "my_load.jobs:Login"
    assert plan.python.options == {"users": [1, 2]}
    assert plan.request_names == ("login", "logout")
    assert plan.operations == ()


def test_expanded_stream_is_the_job_that_is_kept() -> None:
    job = job_of("auth", {"base": BASE, "filter": USER, "password": "x"})
    again = load_job_text(job.canonical_text(), file="job", base=None)
    assert again == job
    assert "options" not in job.canonical_text()


@pytest.mark.parametrize(
    ("type_name", "options", "fault"),
    [
        ("auht", {}, "streams[0].type: unknown job type 'auht'"),
        ("auth", None, "streams[0].options: the key 'base' is missing"),
        (
            "auth",
            {"base": BASE, "filter": "(uid=[0-9)", "password": "x"},
            "streams[0].options.filter: bracket '[' at character 6 has no partner",
        ),
        (
            "search_modify",
            {"base": BASE, "filter": USER, "replace": {}},
            "streams[0].options.replace: ",
        ),
        (
            "prime",
            {"base": BASE, "filter": "(uid=[0-9])"},
            "streams[0].options.filter: expected one range of numbers in turn, got",
        ),
        (
            "prime",
            {"base": BASE, "filter": "(uid=[0:3]"},
            "streams[0].options.filter: ",
        ),
        ("burst", {"basis": BASE}, "streams[0].options.basis: unknown key 'basis'"),
    ],
)
def test_fault_of_an_option_is_shown_where_it_is_written(
    type_name: str, options: Any, fault: str
) -> None:
    assert any(one.startswith(fault) for one in faults_of(type_name, options))


def test_one_fault_of_a_type_does_not_make_others() -> None:
    threshold = "thresholds: ['load.bind.errors < 1%']\n"
    assert faults_of("auht", {}, threshold) == [
        "streams[0].type: unknown job type 'auht'"
    ]
    (fault,) = faults_of("auth", {"base": BASE, "password": "x"}, threshold)
    assert fault == "streams[0].options: the key 'filter' is missing"


def test_type_and_operations_cannot_both_say_what_is_sent() -> None:
    operations = '    operations: [{search: {base: ""}}]\n'
    (fault,) = faults_of("burst", {"base": BASE}, operations)
    assert fault == "streams[0].operations: the type 'burst' sets 'operations' itself"


def test_thresholds_know_what_a_type_sends() -> None:
    options = {"base": BASE, "filter": USER, "password": "x"}
    assert job_of("auth", options, "thresholds: ['load.bind.errors < 1%']\n")
    (fault,) = faults_of("auth", options, "thresholds: ['load.bnd.errors < 1%']\n")
    assert fault.startswith("thresholds[0]: unknown operation 'bnd'")


def test_overrides_reach_options() -> None:
    text = TEXT + f'    type: burst\n    options: {{base: "{BASE}"}}\n'
    job = load_job_text(
        text, file="job", base=None, overrides=["streams.load.options.filter=(cn=a)"]
    )
    assert job.streams[0].operations[0].body.model_dump()["filter"] == "(cn=a)"
    with pytest.raises(JobErrors) as caught:
        load_job_text(
            text, file="job", base=None, overrides=["streams.load.options.filter=cn"]
        )
    (fault,) = caught.value.faults
    assert str(fault).startswith("--set:1: streams[0].options.filter: ")


@pytest.mark.parametrize("name", sorted(job_types()))
def test_every_type_is_documented(name: str) -> None:
    job_type = job_types()[name]
    assert job_type.name == name
    assert job_type.__doc__
    assert job_type.Options.summary()
    for key, info in fields_of(job_type.Options):
        assert info.description, key
        if info.is_required():
            assert info.examples, f"{key} is required and has no example"


def test_each_python_class_of_a_type_is_there() -> None:
    classes = entry_points(group=PYTHON_JOBS)
    assert classes
    for entry_point in classes:
        job_type = job_types()[entry_point.name]
        assert job_type.python_class() == entry_point.value
        assert isinstance(entry_point.load(), type)


def test_another_package_does_not_replace_the_class_of_a_built_in_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = entry_points(group=PYTHON_JOBS, name="bulk_load")
    foreign = EntryPoint("bulk_load", "elsewhere:Class", PYTHON_JOBS)
    monkeypatch.setattr(base, "entry_points", lambda **_: (*found, foreign))
    assert job_types()["bulk_load"].python_class() == next(iter(found)).value


class ListOptions(Section):
    """A list of searches."""

    bases: FileName


class FromList(JobType[ListOptions]):
    """Searches the bases of a file."""

    name: ClassVar[str] = "from_list"
    Options: ClassVar[type[Section]] = ListOptions

    def expand(self, options: ListOptions, stream: Mapping[str, Any]) -> dict[str, Any]:
        if options.bases == "refused":
            raise Fault("not this one", "take another")
        return {"operations": [{"search": {"base": f"[file:{options.bases}]"}}]}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two types of others: one that works, one that cannot be imported."""
    found = [
        EntryPoint("from_list", f"{__name__}:FromList", types.ENTRY_POINTS),
        EntryPoint("broken", "no_such_module:Type", types.ENTRY_POINTS),
        EntryPoint("auth", f"{__name__}:FromList", types.ENTRY_POINTS),
    ]
    monkeypatch.setattr(EntryPoint, "load", lambda self: _load(self.value))
    monkeypatch.setattr(types, "entry_points", lambda *, group: found)
    types.job_types.cache_clear()
    yield
    types.job_types.cache_clear()


def _load(value: str) -> type[JobType[Any]]:
    if "FromList" not in value:
        raise ImportError(value)
    return FromList


@pytest.mark.usefixtures("installed")
def test_types_of_others_are_found_by_their_entry_point() -> None:
    stream = stream_of("from_list", {"bases": "bases.txt"})
    assert stream.request_names == [("search", "search")]
    assert "broken" not in job_types()
    assert job_types()["auth"] is not FromList


@pytest.mark.usefixtures("installed")
def test_file_that_an_option_names_is_sent_along() -> None:
    job = job_of("from_list", {"bases": "bases.txt"})
    assert job.named_files() == ("bases.txt",)


@pytest.mark.usefixtures("installed")
def test_fault_that_a_type_raises_is_that_of_its_options() -> None:
    assert faults_of("from_list", {"bases": "refused"}) == [
        "streams[0].options: not this one"
    ]


class Defective(JobType[Section]):
    """A type with a defect."""

    name: ClassVar[str] = "defective"
    Options: ClassVar[type[Section]] = Section
    makes: ClassVar[Any] = None

    def expand(self, options: Section, stream: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.makes, Exception):
            raise self.makes
        made: dict[str, Any] = self.makes
        return made


@pytest.mark.parametrize(
    "makes", [KeyError("x"), None, [], {3: "x"}, RecursionError("too deep")]
)
def test_defect_of_a_type_is_a_fault_of_the_job(
    makes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Defective, "makes", makes)
    monkeypatch.setattr(
        "ldapslam.jobs.reading.expansion.job_types", lambda: {"defective": Defective}
    )
    (fault,) = faults_of("defective", {})
    assert fault.startswith("streams[0].type: the job type 'defective' failed: ")


@pytest.mark.parametrize("found", ["text", int, JobType, print])
def test_what_is_no_type_is_left_out(
    found: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    point = SimpleNamespace(name="odd", load=lambda: found)
    monkeypatch.setattr(types, "entry_points", lambda group: [point])
    job_types.cache_clear()
    try:
        assert "odd" not in job_types()
    finally:
        job_types.cache_clear()
    assert "no JobType" in caplog.text
