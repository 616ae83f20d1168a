# SPDX-License-Identifier: Apache-2.0
"""Loading job files: defaults, notation, overrides, files, canonical form, faults."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from operator import getitem
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ldapslam.base.errors import JobErrors
from ldapslam.base.units import NS_PER_S, Rate
from ldapslam.jobs.fields.context import LAB_FOLDER, Reading
from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from support.bad_jobs import FOLDER, bad_jobs, faults_of, job_file, write

MINIMAL = """\
name: minimal
targets: {replica: ldap://ds1.example.com}
run: {duration: 10s}
streams:
  - name: readers
    target: replica
    load: {clients: 4}
    operations:
      - search: {base: "dc=example,dc=com"}
"""

MIX = """\
name: directory-mix
description: ten readers to one writer
targets:
  supplier: ldap://ds1.example.com
  replica: [ldap://ds2.example.com, ldap://ds3.example.com:1389]
bind: {dn: "cn=admin,dc=example,dc=com", password: {env: LDAP_PASSWORD}}
tls: {start_tls: true, verify: false}
run: {duration: 10m, ramp_up: 10s, warm_up: 45s, cool_down: 5s, interval: 5s, drain: 3s}
agents: {labels: {site: a}}
streams:
  - name: readers
    target: replica
    load: {clients: 15, think_time: 1ms}
    connection: {connect_timeout: 2s}
    request_timeout: 5s
    operations:
      - weight: 3
        search:
          base: "ou=people,dc=example,dc=com"
          scope: one
          filter: "(uid=user.[0-5999999])"
          attributes: [cn, mail]
          time_limit: 5s
      - {name: root, search: {base: "", scope: base}}
  - name: writers
    target: supplier
    bind: {dn: "cn=writer", password: {file: /etc/ldapslam/password}}
    load: {rate: 20/s, arrivals: poisson, connections: 4, max_backlog: 50}
    operations:
      - modify:
          dn: "uid=user.[0-5999999],ou=people,dc=example,dc=com"
          replace: {description: "[random:80]"}
          delete: {mail: null, sn: [a, b]}
          increment: {uidNumber: 1}
thresholds: ["readers.search.response_time.p99 < 5ms", "writers.*.errors < 0.1%"]
validity: {steady: required, busy_share: 90%}
monitors: [{directory: replica, every: 250ms, bind: {dn: cn=m, password: {env: M}}}]
verify: {replication: {within: 60s}}
seed: 42
on_agent_loss: continue
coordinator_timeout: 5m
"""


SESSIONS = """\
name: sessions
targets: {supplier: ldap://ds1.example.com}
bind: {sasl: {mechanism: PLAIN, authcid: u, password: {env: P}}}
tls: {cert_file: /etc/c.pem, key_file: /etc/k.pem}
run: {duration: 10m, ramp_up: 10s}
streams:
  - name: mix
    target: supplier
    load: {rate: 20/s, stages: [{rate: 0.5x, for: 5s}, {ramp_to: 2x, for: 1m}]}
    connection: {reconnect_every: 30s, spacing: 10/s}
    count: 1000
    start_after: 5s
    stop_after: 1m
    operations:
      - add: {dn: "cn=[unique],dc=b", entry: {objectClass: device, cn: "[uuid]"}}
      - {weight: 2, delete: {of: add, order: random}, expect: [success, 32]}
      - {search: {base: "dc=b"}, controls: [manage_dsa_it, {assertion: "(cn=a)"}]}
      - abandon: {of: search, after: 5ms}
      - name: session
        sequence:
          - let: {who: "u[0-9]", mail: "[who]@b"}
            search: {base: "dc=b", filter: "(mail=[mail])"}
            capture: {dn: dn, sn: sn}
          - think: 1ms
          - {modify: {dn: "[dn]", replace: {sn: "[sn][sn]"}}, repeat: 3}
          - unbind: {}
  - name: logins
    target: supplier
    load: {clients: 3}
    type: auth
    options: {base: "dc=b", filter: "(cn=[0-9])", password: p, unbind: true}
  - name: waves
    target: supplier
    load: {stages: [{ramp_to: 9/s, for: 9s}]}
    type: burst
    options: {base: "dc=b"}
thresholds: ["mix.session-search.errors < 1%", "logins.bind.errors < 1%"]
monitors: [{entry: cn=a, target: supplier, attributes: [b]}]
verify: {replication: {within: 60s, base: "dc=b", sample: 99}}
"""

FILES = """\
name: files
targets: {directory: ldap://ds1}
tls: {ca_file: ca.pem}
run: {duration: 10s}
streams:
  - name: load
    target: directory
    load: {clients: 1}
    operations:
      - search: {base: "dc=com", filter: "(&(uid=[file:users.txt])(sn=[0-9]))"}
      - sequence:
          - name: find
            let: {user: "[sequentialfile:lists/more.txt]"}
            search: {base: "dc=com", filter: "(uid=[user])"}
            capture: dn
          - modify: {dn: "[dn]", replace: {sn: [a, "[dn] [file:sn.txt]"]}}
"""
NAMES = ["ca.pem", "lists/more.txt", "sn.txt", "users.txt"]


def load(text: str, *overrides: str, base: Path | None = None) -> Job:
    return load_job_text(text, file="job.yaml", base=base, overrides=overrides)


def faults(text: str, *overrides: str, base: Path | None = None) -> list[str]:
    with pytest.raises(JobErrors) as caught:
        load(text, *overrides, base=base)
    return [str(fault) for fault in caught.value.faults]


def test_minimal_job_has_every_default() -> None:
    job = load(MINIMAL)
    (stream,) = job.streams
    assert job.bind is None
    assert job.agents.all is True
    assert job.seed is None
    assert (job.on_agent_loss, job.coordinator_timeout_ns) == ("stop", 60 * NS_PER_S)
    assert (job.run.interval_ns, job.run.drain_ns) == (NS_PER_S, 10 * NS_PER_S)
    assert stream.connection.connect_timeout_ns == 10 * NS_PER_S
    assert stream.request_timeout_ns == 30 * NS_PER_S
    assert stream.operations[0].name == "search"
    assert stream.operations[0].weight == 1
    assert (job.monitors, job.verify) == ([], None)


def test_every_field_of_a_full_job_is_read() -> None:
    job = load(MIX)
    readers, writers = job.streams
    assert job.targets["supplier"] == ["ldap://ds1.example.com"]
    assert job.run.warm_up_ns == 45 * NS_PER_S
    assert job.agents.labels == {"site": "a"}
    assert readers.load.kind == "closed"
    assert readers.load.think_time_ns == 1_000_000
    assert [operation.name for operation in readers.operations] == ["search", "root"]
    assert writers.load.kind == "open"
    assert writers.load.rate == Rate(1, 50_000_000)
    assert writers.load.max_backlog_arrivals == 50
    assert writers.bind is not None
    assert writers.bind.secret is not None
    assert writers.bind.secret.file == "/etc/ldapslam/password"
    assert job.validity.busy_share == 0.9
    assert job.seed == 42
    (monitor,) = job.monitors
    assert monitor.every_ns == NS_PER_S // 4
    assert monitor.bind is not None
    assert monitor.bind.dn == "cn=m"
    assert job.verify is not None
    check = job.verify.replication
    assert check.within_ns == 60 * NS_PER_S
    assert (check.base, check.content, check.sample) == (None, True, None)


@pytest.mark.parametrize(
    ("text", "kind", "role"),
    [
        ("{directory: replica}", "directory", "replica"),
        ("{host: supplier, processes: [slapd]}", "host", "supplier"),
        ("{entry: 'cn=a', target: replica, counters: [b]}", "entry", "replica"),
        ("{log: /var/log/slapd.log, format: openldap}", "log", None),
        ("{log: /a, format: 389ds, target: supplier}", "log", "supplier"),
    ],
)
def test_each_kind_of_monitor_knows_its_servers(
    text: str, kind: str, role: str | None
) -> None:
    (monitor,) = load(MIX, f"monitors=[{text}]").monitors
    assert (monitor.kind, monitor.role) == (kind, role)
    assert monitor.every_ns is None


@pytest.mark.parametrize(
    "names",
    [
        "attributes: [one, two, One]",
        "counters: [one, one]",
        "attributes: [one], counters: [one]",
    ],
)
def test_an_attribute_is_read_once(names: str) -> None:
    (fault,) = faults(MIX, f"monitors=[{{entry: cn=a, target: replica, {names}}}]")
    assert "the attribute 'one' is there twice" in fault


def test_default_backlog_is_ten_seconds_of_arrivals() -> None:
    job = load(MINIMAL, "streams.readers.load={rate: 90/m}")
    assert job.streams[0].load.kind == "open"
    assert job.streams[0].load.max_backlog_arrivals == 15


@pytest.mark.parametrize(
    "text", [MINIMAL, MIX, SESSIONS], ids=["minimal", "mix", "sessions"]
)
def test_canonical_text_loads_as_the_same_job(text: str) -> None:
    job = load(text)
    again = load(job.canonical_text())
    assert again == job
    assert again.canonical_hash() == job.canonical_hash()


def test_canonical_hash_is_blind_to_form_and_sees_content() -> None:
    job = load(MINIMAL)
    assert load("# the same\n" + MINIMAL.replace("10s", "10000ms")) == job
    assert load(MINIMAL, "run.duration=11s").canonical_hash() != job.canonical_hash()


def test_order_of_changes_survives_the_canonical_text() -> None:
    job = load(load(MIX).canonical_text())
    changes = job.model_dump(mode="json", by_alias=True)["streams"][1]["operations"]
    assert list(changes[0]["modify"])[:4] == ["dn", "replace", "delete", "increment"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("007", "007"),
        ("+49", "+49"),
        ("0x1F", "0x1F"),
        ("1000", "1000"),
        ("2001-01-01", "2001-01-01"),
        ("'true'", "true"),
        ("1e3x", "1e3x"),
    ],
)
def test_scalar_means_what_its_writer_sees(written: str, value: str) -> None:
    job = load(
        MINIMAL,
        "streams.0.operations.0="
        f'{{modify: {{dn: "uid=a,dc=b", replace: {{description: {written}}}}}}}',
    )
    body = job.streams[0].operations[0].body
    assert body.model_dump()["replace"] == {"description": [value]}


def test_aliases_stand_for_their_values() -> None:
    text = MINIMAL.replace("duration: 10s", "duration: &long 10s, drain: *long")
    assert load(text).run.drain_ns == 10 * NS_PER_S


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("run.duration=30s", "run.duration_ns", 30 * NS_PER_S),
        ("run.warm_up=5s", "run.warm_up_ns", 5 * NS_PER_S),
        ("tls.verify=false", "tls.verify", False),
        ("streams.0.name=a", "streams.0.name", "a"),
        ("streams[0].name=a", "streams.0.name", "a"),
        ("streams.readers.load.clients=9", "streams.0.load.clients", 9),
        ("targets.replica=[ldap://a]", "targets", {"replica": ["ldap://a"]}),
        ("description=a=b", "description", "a=b"),
        ("seed=", "seed", None),
    ],
)
def test_override_changes_one_field(override: str, path: str, value: Any) -> None:
    assert value_at(load(MINIMAL, override), path) == value


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("search.filter=(cn=a)", "2.body.filter", "(cn=a)"),
        ("search.search.scope=one", "2.body.scope", "one"),
        ("2.size_limit=3", "2.body.size_limit", 3),
        ("delete.weight=7", "1.weight", 7),
        ("delete.name=gone", "1.name", "gone"),
        ("session.sequence.search.scope=one", "4.sequence.0.body.scope", "one"),
        ("session.sequence.modify.repeat=2", "4.sequence.2.repeat", 2),
        ("session.modify.delete.mail=", "4.sequence.2.body.delete", {"mail": []}),
    ],
)
def test_override_names_an_operation(override: str, path: str, value: Any) -> None:
    job = load(SESSIONS, f"streams.mix.operations.{override}")
    assert value_at(job, f"streams.0.operations.{path}") == value


def value_at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[int(key)] if key.isdigit() else getattr(value, key)
    return value


def test_override_needs_the_name_of_one_of_two_operations() -> None:
    (fault,) = faults(MIX, "streams.readers.operations.search.scope=base")
    assert fault.startswith(
        "--set:1: streams[0].operations has 2 operations of the kind 'search'"
    )
    assert load(MIX, "streams.readers.operations.root.scope=one")


def test_later_override_wins() -> None:
    job = load(MINIMAL, "run.duration=30s", "run.duration=40s")
    assert job.run.duration_ns == 40 * NS_PER_S


def test_override_mends_a_fault_of_the_file() -> None:
    assert load(MINIMAL.replace("duration: 10s", "duration: 10"), "run.duration=10s")


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("run.duration", "--set:1: expected path=value, got 'run.duration'"),
        ("=5s", "--set:1: expected path=value, got '=5s'"),
        ("run..duration=5s", "--set:1: expected a path such as 'run.duration'"),
        ("run.duration=5", "--set:1: run.duration: expected a duration such as"),
        ("run.duraton=5s", "--set:1: run.duraton: unknown key 'duraton'"),
        ("name.x=1", "--set:1: name is 'minimal', it has no 'x'"),
        (
            "streams.7.name=x",
            "--set:1: streams has 1 items, numbered from 0: there is no 7",
        ),
        ("streams.reader.name=x", "--set:1: streams is a list, it has no item named"),
        ("run={duration: 5s", "--set:1: not YAML: "),
        ("streams.0.target=x", "--set:1: streams[0].target: unknown target role 'x'"),
    ],
)
def test_fault_of_an_override_has_its_number(override: str, fault: str) -> None:
    (only,) = faults(MINIMAL, override)
    assert only.startswith(fault)


def test_faults_of_the_file_come_before_those_of_overrides() -> None:
    places = [
        fault.split(": ")[0]
        for fault in faults(
            MINIMAL.replace("name: minimal", "nmae: minimal"),
            "seed=x",
            "run.duration=1",
        )
    ]
    assert places == ["job.yaml:1:1", "job.yaml:1:1", "--set:1", "--set:2"]


def test_named_files_are_known_without_looking_for_them() -> None:
    job = load(FILES)
    assert sorted(job.named_files()) == NAMES
    assert job.files == {}


def test_named_files_are_found_beside_the_job(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    for name in NAMES:
        (tmp_path / name).write_text("a\n")
    (tmp_path / "job.yaml").write_text(FILES)
    job = load_job(tmp_path / "job.yaml")
    assert job.files == {name: tmp_path / name for name in NAMES}
    (stream,) = agent_plan(job, 0, 1, seed=1).streams
    assert stream.operations[0].template.files == (str(tmp_path / "users.txt"),)


def test_missing_named_file_is_a_fault_where_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobErrors) as caught:
        load(FILES, base=tmp_path)
    assert {fault.path for fault in caught.value.faults} == {
        "tls.ca_file",
        "streams[0].operations[0].search.filter",
        "streams[0].operations[1].sequence[0].let.user",
        "streams[0].operations[1].sequence[1].modify.replace.sn[1]",
    }


def test_delivered_files_stand_for_those_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("certificate")
    files: dict[str, Any] = {name: b"a\n" for name in NAMES}
    # bytes: where a job is only read
    for delivered, found in ((b"c", {}), (tmp_path / "0", {"ca.pem": tmp_path / "0"})):
        job = load_job_text(
            FILES, file="job", base=None, files={**files, "ca.pem": delivered}
        )
        assert job.files == found


def test_file_that_is_no_text_is_a_fault() -> None:
    text = MINIMAL.replace("clients: 4", "stages: {file: rates.csv}")
    with pytest.raises(JobErrors, match="line 2: expected UTF-8, got 0xff"):
        load_job_text(text, file="job", base=None, files={"rates.csv": b"0,1\n\xff"})


@given(st.binary(max_size=60))
def test_any_bytes_give_faults_and_nothing_else(content: bytes) -> None:
    with pytest.raises(JobErrors):
        load_job_text(content, file="job.yaml", base=None)


@given(
    whole=st.sampled_from([MIX, SESSIONS]),
    place=st.floats(0, 1),
    length=st.integers(0, 12),
    text=st.text("{}[]:,&*!|>'\"%@-? \n\tab01s/._<", max_size=6),
)
def test_any_damage_gives_faults_and_nothing_else(
    whole: str, place: float, length: int, text: str
) -> None:
    start = int(place * len(whole))
    damaged = whole[:start] + text + whole[start + length :]
    try:
        job = load(damaged)
    except JobErrors as errors:
        assert errors.faults  # noqa: PT017
    else:
        assert load(job.canonical_text()) == job
        agent_plan(job, 0, 2, seed=1)


@given(
    place=st.floats(0, 1),
    other=st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    wrapped=st.sampled_from(["value", "list", "mapping"]),
)
def test_any_value_of_another_kind_gives_faults_and_nothing_else(
    place: float, other: Any, wrapped: str
) -> None:
    content = yaml.safe_load(SESSIONS)
    places = list(_places(content))
    container, key = places[int(place * (len(places) - 1))]
    container[key] = {"value": other, "list": [other], "mapping": {"a": other}}[wrapped]
    try:
        job = load(yaml.safe_dump(content, sort_keys=False))
    except JobErrors as errors:
        assert all(fault.line for fault in errors.faults)  # noqa: PT017
    else:
        agent_plan(job, 0, 2, seed=1)


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    keys = content if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from _places(content[key])


SEARCH = '{{search: {{base: "dc=example,dc=com", filter: "(cn=[file:{}])"}}}}'
ADD = '{{add: {{template: "{}", under: "dc=example,dc=com"}}}}'


@pytest.mark.parametrize("operation", [SEARCH, ADD])
@pytest.mark.parametrize(
    ("name", "in_command", "is_taken"),
    [
        ("own", False, True),
        ("sub/../own", False, True),
        ("../other", False, False),
        ("sub/../../other", False, False),
        ("{}/other", False, False),
        ("link", False, False),
        ("link", True, False),
        ("run", False, False),
        ("loop", False, False),
        ("../other", True, True),
        ("{}/other", True, True),
    ],
)
def test_a_job_sends_no_file_from_outside_of_its_folder_but_as_the_user_says(
    operation: str,
    name: str,
    in_command: bool,
    is_taken: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "jobs"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "own", tmp_path / "other"):
        path.write_text("template: a\nrdnAttr: cn\ncn: <guid>\n")
    (folder / "link").symlink_to(tmp_path / "other")
    (folder / "run").symlink_to(tmp_path / "other")
    (folder / "loop").symlink_to("loop")
    named = operation.format("${file}")
    place = name.format(tmp_path)
    job = MINIMAL.replace('search: {base: "dc=example,dc=com"}', named)
    (folder / "job.yaml").write_text(f'vars: {{file: "{place}"}}\n' + job)
    overrides = [f"vars.file={place}" if in_command else "run.duration=20s"]
    monkeypatch.chdir(folder / "sub")
    path = Path("..") / "job.yaml"
    if is_taken:
        assert set(load_job(path, overrides).files) == {place}
        return
    with pytest.raises(JobErrors, match="expected a file"):
        load_job(path, overrides)


#: Names of keys that are paths, and of what contains such a name but is none.
PATHS = re.compile("file|log|path|ldif|binary")
NO_PATHS = {"max_backlog", "class_path"}


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    for one in section.__subclasses__():
        if one.__module__.startswith("ldapslam.jobs."):
            yield one
        yield from _sections(one)


def _keys_of_files() -> Iterator[tuple[str, TypeAdapter[Any]]]:
    for section in dict.fromkeys(_sections(Section)):
        for name, info in section.model_fields.items():
            text = repr((info.annotation, info.metadata))
            is_file = "Kind(name='file'" in text or "Kind(name='path'" in text
            if is_file or (PATHS.search(name) and name not in NO_PATHS):
                kind: Any = getitem(Annotated, (info.annotation, *info.metadata, name))
                yield f"{section.__name__}.{name}", TypeAdapter(kind)


KEYS_OF_FILES = dict(_keys_of_files())


@pytest.mark.parametrize("key", KEYS_OF_FILES)
def test_every_file_of_a_job_lies_in_its_folder_or_a_lab_or_the_command_names_it(
    key: str, tmp_path: Path
) -> None:
    folder = tmp_path / "jobs"
    lab = tmp_path / f"{LAB_FOLDER}a" / "server"
    for path in (folder, lab):
        path.mkdir(parents=True)
        (path / "own").write_text("0,1\n")
    (tmp_path / "other").write_text("0,1\n")
    (folder / "link").symlink_to(tmp_path / "other")

    def is_taken(place: Path, *command: str) -> bool:
        reading = Reading(base=folder, command=command)
        value = [str(place)] if key == "Trace.logs" else str(place)
        try:
            KEYS_OF_FILES[key].validate_python(value, context=reading)
        except ValidationError as error:
            return "in the folder of the job" not in str(error)
        return True

    other = tmp_path / "other"
    assert is_taken(folder / "own")
    assert is_taken(lab / "own")
    assert is_taken(other, f"a.b={other}")
    assert is_taken(other, f"bind={{dn: 'cn=a', password: {{file: {other}}}}}")
    assert not is_taken(other)
    assert not is_taken(other, f"a.b={other}2")
    assert not is_taken(folder / ".." / "other")
    assert not is_taken(lab / ".." / ".." / "other")
    assert not is_taken(folder / "link")


def test_a_file_that_another_host_alone_has_may_lie_anywhere(tmp_path: Path) -> None:
    password = f"{{file: {tmp_path.parent}/nowhere}}"
    text = f"{MINIMAL}bind: {{dn: cn=a, password: {password}}}\n"
    (tmp_path / "job.yaml").write_text(text)
    assert load_job(tmp_path / "job.yaml").bind is not None


# Every job of bad_jobs/cases.yaml gives all of its faults, with position and hint.
# --update-golden rewrites the faults in cases.yaml, for review.


CASES = bad_jobs()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for job files, with the files that they name."""
    return Path(shutil.copytree(FOLDER, tmp_path_factory.mktemp("jobs") / "bad"))


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Any]]]:
    """The cases; the file gets their new faults in the end if that was asked for."""
    yield CASES
    if request.config.getoption("--update-golden"):
        write(CASES)


@pytest.mark.parametrize("name", CASES)
def test_broken_job_gives_all_of_its_faults_with_position_and_hint(
    name: str, folder: Path, cases: dict[str, dict[str, Any]], update_golden: bool
) -> None:
    case = cases[name]
    faults = faults_of(job_file(case), folder)
    if update_golden:
        case["faults"] = faults  # `cases` writes them
    assert faults == case["faults"]
    assert re.fullmatch(r"(\d+:\d+: .+\n    hint: (?!None$).+\n)+", faults, re.M)


def test_operations_and_steps_of_a_stream_are_limited(folder: Path) -> None:
    operations = "".join(f"- {{name: s{n}, unbind: {{}}}}\n" for n in range(1025))
    steps = "".join(
        f'    - {{name: s{n}, search: {{base: "dc=com"}}, repeat: 1000}}\n'
        for n in range(66)
    )
    for text, fault in (
        (operations, "expected at most 1024 operations in a stream, got 1025"),
        (
            f"- sequence:\n{steps}",
            "expected at most 65535 steps in a stream, got 66000",
        ),
    ):
        faults = faults_of(job_file({"stream.operations": text}), folder)
        assert f"streams[0].operations: {fault}\n" in faults


def test_literal_password_is_not_repeated() -> None:
    case = CASES["literal-password"]
    assert b"hunter2" in job_file(case)
    assert "hunter2" not in case["faults"]


def test_file_of_50_mb_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    with pytest.raises(JobErrors) as caught:
        load_job(path)
    assert [fault.reason for fault in caught.value.faults] == [
        "expected a file of at most 1048576 bytes, got 50000000"
    ]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_without_end_is_refused(opening: str) -> None:
    with pytest.raises(JobErrors):
        load_job_text(opening * 100_000, file="deep.yaml", base=None)


def test_file_that_is_not_there_names_one_that_is(tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").touch()
    with pytest.raises(JobErrors) as caught:
        load_job(tmp_path / "mixd.yaml")
    (fault,) = caught.value.faults
    assert fault.reason == "cannot be read: No such file or directory"
    assert fault.hint == "did you mean 'mixed.yaml'?"


def test_folder_instead_of_a_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(JobErrors, match="cannot be read: Is a directory"):
        load_job(tmp_path)
