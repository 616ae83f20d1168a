# SPDX-License-Identifier: Apache-2.0
"""Job types: what each makes of its options, and where its faults are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml

from ldapslam.agent.admission.preflight import probes
from ldapslam.base.errors import JobErrors
from ldapslam.base.fault import Fault
from ldapslam.base.units import NS_PER_S as S
from ldapslam.jobs import types
from ldapslam.jobs.fields.sections import FileName, Section
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.planning import run_plan
from ldapslam.jobs.requests.template import SEQUENCE
from ldapslam.jobs.types import base, job_types
from ldapslam.jobs.types.base import PYTHON_JOBS, JobType

BASE = "ou=people,dc=example,dc=com"
USER = "(uid=user.[0-999])"
TEXT = """\
name: test
targets: {directory: ldap://ds1, replica: [ldap://ds2, ldap://ds3], hub: ldap://ds4}
run: {duration: 10s}
streams:
  - name: load
    target: directory
"""
LOAD = "    load: {clients: 4}\n"
SETTING_THE_LOAD = ("bulk_load", "replication_probe")


def job_of(type_name: str, options: Any, extra: str = "", **files: Any) -> Job:
    rest = yaml.safe_dump({"type": type_name, "options": options}, sort_keys=False)
    text = TEXT if type_name in SETTING_THE_LOAD else TEXT + LOAD
    text += "".join(f"    {line}\n" for line in rest.splitlines())
    return load_job_text(text + extra, file="job", base=None, files=files)


def stream_of(type_name: str, options: Any, extra: str = "") -> Stream:
    return job_of(type_name, options, extra).streams[0]


def faults_of(
    type_name: str, options: Any, extra: str = "", **files: bytes
) -> list[str]:
    with pytest.raises(JobErrors) as caught:
        job_of(type_name, options, extra, **files)
    assert all(fault.line and fault.hint for fault in caught.value.faults)
    return [f"{fault.path}: {fault.reason}" for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("more", "kinds", "expect"),
    [
        ({}, ["search", "bind"], None),
        (
            {"expect": ["success", 49], "unbind": True},
            ["search", "bind", "unbind"],
            [0, 49],
        ),
    ],
    ids=["success", "failures, and an unbind after each login"],
)
def test_auth_finds_an_entry_and_binds_as_it(
    more: dict[str, Any], kinds: list[str], expect: list[int] | None
) -> None:
    options = {"base": BASE, "filter": USER, "password": "password.[0-9]", **more}
    stream = stream_of("auth", options)
    assert stream.request_names == [(kind, kind) for kind in kinds]
    search, bind = (stream.operations[0].sequence or [])[:2]
    assert search.capture == {"dn": "dn"}
    assert search.body.model_dump()["attributes"] == ["1.1"]
    assert bind.body.model_dump()["dn"] == "[dn]"
    assert bind.body.model_dump()["password"] == "password.[0-9]"
    assert bind.expect == expect


def test_search_modify_changes_what_it_has_found() -> None:
    changes = {"replace": {"description": "[random:8]"}, "modifies": 3}
    options = {"base": BASE, "filter": USER, **changes}
    search, modify = stream_of("search_modify", options).operations[0].sequence or []
    assert (search.kind, search.repeat) == ("search", 1)
    assert (modify.kind, modify.repeat) == ("modify", 3)
    assert modify.body.model_dump()["replace"] == {"description": ["[random:8]"]}


def test_burst_connects_for_every_search() -> None:
    extra = "    connection: {connect_timeout: 2s}\n"
    stream = stream_of("burst", {"base": BASE, "filter": USER}, extra)
    assert stream.request_names == [("search", "search")]
    assert stream.connection.per_operation
    assert stream.connection.connect_timeout_ns == 2 * S


def test_prime_searches_each_key_once_and_ends() -> None:
    job = job_of("prime", {"base": BASE, "filter": "(uid=user.[5:1005%000000))"})
    (stream,) = job.streams
    assert stream.count == 1000
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    (value,) = plan.operations[0].template.values
    assert (value.kind, value.lo, value.hi, value.width) == (SEQUENCE, 5, 1004, 6)
    assert plan.total_operations == 1000


def test_run_of_counted_streams_needs_no_duration() -> None:
    text = (TEXT + LOAD).replace("run: {duration: 10s}", "run: {interval: 1s}")
    options = f'{{base: "{BASE}", filter: "(uid=[0:9])"}}'
    prime = f"    type: prime\n    options: {options}\n"
    job = load_job_text(text + prime, file="job", base=None)
    assert job.run.duration_ns == 24 * 3600 * S
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
    text = f"{TEXT}{LOAD}    python: {json.dumps(options)}\n"
    job = load_job_text(text, file="job", base=None)
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    assert plan.engine == "python"
    assert plan.python is not None
    assert plan.python.class_path == "my_load.jobs:Login"
    assert plan.python.options == {"users": [1, 2]}
    assert plan.request_names == ("login", "logout")
    assert plan.operations == ()


def test_one_client_imports_once_and_the_target_need_not_be_there() -> None:
    plan = agent_plan(job_of("bulk_load", {"server": "slapd"}), 0, 1, 0)
    (stream,) = plan.streams
    assert (stream.connections, stream.total_operations) == (1, 1)
    assert stream.python is not None
    assert stream.python.options == {
        "server": "slapd",
        "method": "offline",
        "quick": True,
        "template": "people",
        "settings": {},
    }
    assert probes(plan) == []


def test_imports_are_counted_and_their_template_is_sent_along(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("branch: dc=example,dc=com\n")
    options = {"server": "389ds", "method": "online", "template_file": "own"}
    job = job_of("bulk_load", options, "    count: 3\n", own=own)
    (stream,) = agent_plan(job, 0, 1, 0).streams
    assert stream.total_operations == 3
    assert stream.python is not None
    assert stream.python.options["template_text"] == "branch: dc=example,dc=com\n"


def test_a_stream_has_no_more_imports_than_are_noted() -> None:
    (fault,) = faults_of("bulk_load", {"server": "slapd"}, "    count: 101\n")
    assert "a stream has at most 100" in fault


PROBE = {"dn": "cn=probe,dc=example,dc=com"}


def test_each_server_that_is_probed_has_an_operation() -> None:
    job = job_of("replication_probe", {**PROBE, "replicas": ["replica", "hub"]})
    (stream,) = agent_plan(job, 0, 2, 0).streams
    assert stream.uris == ("ldap://ds1", "ldap://ds2", "ldap://ds3", "ldap://ds4")
    assert (stream.model, stream.total_connections) == ("open", 1)
    assert stream.python is not None
    assert stream.watched == 3
    assert stream.request_names == (
        "write",
        "propagation-replica-1",
        "propagation-replica-2",
        "propagation-hub",
    )
    # one process: the second agent has no part in it
    assert agent_plan(job, 1, 2, 0).streams == ()
    # reports know the server of each, and the books the target alone
    (planned,) = run_plan(
        job_of("replication_probe", {**PROBE, "replicas": "hub"})
    ).streams
    assert planned.uris == ("ldap://ds1",)
    assert planned.watched == {"propagation-hub": "ldap://ds4"}
    assert planned.rate_per_s == 5


@pytest.mark.parametrize(
    ("type_name", "options", "fault"),
    [
        ("search_modify", {"base": BASE, "filter": USER, "replace": {}}, "replace: "),
        ("bulk_load", {"ldif": "/x.ldif", "entries": 5}, "ldif excludes entries"),
        (
            "bulk_load",
            {"template": "p", "template_file": "own"},
            "exclude each other",
        ),
        ("bulk_load", {"place": "mnt"}, "expected an absolute path"),
        ("bulk_load", {"settings": {"moduleload": "ppolicy"}}, "an absolute path"),
        ("bulk_load", {"settings": {"Include": ["/a", "b"]}}, "an absolute path"),
        ("bulk_load", {"server": "389ds", "quick": False}, "of slapd and offline"),
        ("bulk_load", {"method": "online", "quick": True}, "quick is of slapd"),
        ("replication_probe", {"replicas": "elsewhere"}, "unknown target role 'else"),
        ("replication_probe", {"replicas": "directory"}, "is there twice"),
        ("replication_probe", {"replicas": ["hub", "hub"]}, "'hub' is there twice"),
        ("replication_probe", {"replicas": []}, "replicas"),
        ("replication_probe", {"dn": "uid=probe,dc=example"}, "begins with cn="),
        ("replication_probe", {"rate": 5}, "rate"),
    ],
)
def test_fault_of_an_option_is_told(type_name: str, options: Any, fault: str) -> None:
    needed = {
        "bulk_load": {"server": "slapd"},
        "replication_probe": {**PROBE, "replicas": "hub"},
    }
    (found,) = faults_of(type_name, {**needed.get(type_name, {}), **options}, own=b"")
    assert fault in found


def test_one_fault_of_a_type_does_not_make_others() -> None:
    threshold = "thresholds: ['load.bind.errors < 1%']\n"
    assert faults_of("auht", {}, threshold) == [
        "streams[0].type: unknown job type 'auht'"
    ]
    (fault,) = faults_of("auth", {"base": BASE, "password": "x"}, threshold)
    assert fault == "streams[0].options: the key 'filter' is missing"


def test_thresholds_know_what_a_type_sends() -> None:
    options = {"base": BASE, "filter": USER, "password": "x"}
    assert job_of("auth", options, "thresholds: ['load.bind.errors < 1%']\n")
    (fault,) = faults_of("auth", options, "thresholds: ['load.bnd.errors < 1%']\n")
    assert fault.startswith("thresholds[0]: unknown operation 'bnd'")


def test_overrides_reach_options() -> None:
    text = f'{TEXT}{LOAD}    type: burst\n    options: {{base: "{BASE}"}}\n'
    job = load_job_text(
        text, file="job", base=None, overrides=["streams.load.options.filter=(cn=a)"]
    )
    assert job.streams[0].operations[0].body.model_dump()["filter"] == "(cn=a)"


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
