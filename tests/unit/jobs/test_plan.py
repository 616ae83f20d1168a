# SPDX-License-Identifier: Apache-2.0
"""Plans of all agents together are the job, exactly, its load over time included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.secrets import SecretRef
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.connection_settings import BindSettings, TlsSettings
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import (
    StreamPlan,
    agent_plan,
    participants,
    share,
    stream_profile,
)
from ldapslam.jobs.rates.profile import (
    FOREVER_NS,
    Profile,
    arrivals_by,
    hold,
    peak_rate,
    ramp,
)
from support.profiles import rate_at

TEXT = """\
name: mix
targets: {supplier: ldap://a, replica: [ldap://b, ldaps://c]}
bind: {dn: "cn=admin", password: {env: PASSWORD}}
run: {duration: 10s, ramp_up: 1s, warm_up: 2s, cool_down: 1s, drain: 3s}
streams:
  - name: readers
    target: replica
    load: {clients: 5, think_time: 2ms}
    operations:
      - {weight: 3, search: {base: "dc=com", filter: "(uid=[0-9])"}}
      - {name: root, search: {base: "", scope: base}}
  - name: writers
    target: supplier
    bind: {dn: "cn=writer", password: {file: /etc/password}}
    tls: {start_tls: true, verify: false}
    load: {rate: 20/s, arrivals: poisson, connections: 2, in_flight: 3}
    operations:
      - modify: {dn: "uid=a,dc=com", replace: {description: "[random:8]"}}
"""


def job(**changes: Any) -> Job:
    overrides = [
        f"{path.replace('__', '.')}={value}" for path, value in changes.items()
    ]
    return load_job_text(TEXT, file="job.yaml", base=None, overrides=overrides)


def stream(name: str, agent_index: int, agent_count: int) -> StreamPlan:
    plan = agent_plan(job(), agent_index, agent_count, seed=1)
    return next(stream for stream in plan.streams if stream.name == name)


def test_time_line_is_that_of_the_run() -> None:
    plan = agent_plan(job(), 0, 1, seed=7)
    assert [span.name for span in plan.phases] == [
        "ramp_up",
        "warm_up",
        "measure",
        "cool_down",
    ]
    assert (plan.measure_start_ns, plan.measure_end_ns) == (3 * NS_PER_S, 13 * NS_PER_S)
    assert plan.boundaries_ns == tuple(range(NS_PER_S, 15 * NS_PER_S, NS_PER_S))
    assert (plan.ramp_up_ns, plan.grace_ns) == (NS_PER_S, 3 * NS_PER_S)
    assert plan.seed == 7


def test_closed_stream_has_its_clients_and_think_time() -> None:
    readers = stream("readers", 1, 3)  # clients 1 and 4 of 0…4
    assert readers.model == "closed"
    assert (readers.connections, readers.first_connection) == (2, 1)
    assert readers.connection_stride == 3
    assert (readers.in_flight, readers.think_time_ns) == (1, 2_000_000)
    assert readers.uris == ("ldap://b", "ldaps://c")
    assert [script.weight for script in readers.scripts] == [3, 1]
    assert [script.steps for script in readers.scripts] == [((0, 0),), ((1, 0),)]
    assert {operation.response_tag for operation in readers.operations} == {0x65}


def test_open_stream_has_the_whole_rate_and_its_share_of_the_backlog() -> None:
    writers = stream("writers", 1, 3)
    assert writers.model == "open"
    assert writers.profile == (ramp(0.0, 2e-8, NS_PER_S), hold(2e-8, FOREVER_NS))
    assert writers.arrivals == "poisson"
    assert writers.connections == 1
    assert writers.in_flight == 3
    assert writers.max_backlog == 100  # 10 s of 20/s over two agents


def test_stream_without_connections_for_an_agent_is_left_out() -> None:
    plan = agent_plan(job(), 2, 3, seed=1)
    assert [stream.name for stream in plan.streams] == ["readers"]
    assert agent_plan(job(), 7, 8, seed=1).streams == ()


def test_stream_has_its_own_bind_and_tls_or_those_of_the_job() -> None:
    readers, writers = stream("readers", 0, 1), stream("writers", 0, 1)
    readers_bind, writers_bind = readers.connection.bind, writers.connection.bind
    assert readers_bind == BindSettings("cn=admin", SecretRef(env="PASSWORD"))
    assert writers_bind == BindSettings("cn=writer", SecretRef(file="/etc/password"))
    assert readers.connection.tls == TlsSettings()
    assert writers.connection.tls == TlsSettings(start_tls=True, verify=False)


def test_ca_file_is_the_place_where_it_was_found(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("certificate")
    with_ca = load_job_text(
        TEXT + "tls: {ca_file: ca.pem}\n",
        file="job.yaml",
        base=None,
        files={"ca.pem": tmp_path / "0"},
    )
    readers, writers = agent_plan(with_ca, 0, 1, seed=1).streams
    assert readers.connection.tls.ca_file == str(tmp_path / "0")
    assert writers.connection.tls.ca_file is None


@given(
    clients=st.integers(1, 300),
    connections=st.integers(1, 300),
    backlog=st.integers(1, 10_000),
    agents=st.integers(1, 12),
)
def test_plans_of_all_agents_sum_to_the_job(
    clients: int, connections: int, backlog: int, agents: int
) -> None:
    whole = job(
        streams__readers__load__clients=clients,
        streams__writers__load__connections=connections,
        streams__writers__load__max_backlog=backlog,
    )
    plans = [agent_plan(whole, index, agents, seed=1) for index in range(agents)]
    for name, total in (("readers", clients), ("writers", connections)):
        parts = [part for plan in plans for part in plan.streams if part.name == name]
        numbers = [
            part.first_connection + j * part.connection_stride
            for part in parts
            for j in range(part.connections)
        ]
        assert sorted(numbers) == list(range(total))
        if name == "writers":
            # Exact, but each driver may hold at least one arrival.
            shares = [part.max_backlog for part in parts]
            assert sum(shares) == max(backlog, len(parts))


@pytest.mark.parametrize(("index", "count"), [(0, 0), (2, 2), (-1, 2)])
def test_agent_that_does_not_exist_is_refused(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="agent"):
        agent_plan(job(), index, count, seed=1)


PARTS = st.integers(1, 200)


@given(total=st.integers(0, 500), parts=PARTS)
def test_share_counts_the_numbers_that_are_dealt_to_the_part(
    total: int, parts: int
) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert shares == [len(range(index, total, parts)) for index in range(parts)]
    assert participants(total, parts) == sum(number > 0 for number in shares)


@pytest.mark.parametrize(("parts", "index"), [(0, 0), (3, 3), (3, -1)])
def test_part_that_does_not_exist_is_refused(parts: int, index: int) -> None:
    with pytest.raises(ValueError, match="part"):
        share(10, parts, index)


# The load of a job over time: from the file's stages to the plan's profile.


S = NS_PER_S

STAGES = """\
name: stages
targets: {directory: ldap://ds1}
run: {duration: 20s, ramp_up: 2s, warm_up: 3s, cool_down: 5s}
streams:
  - name: load
    target: directory
    load: {rate: 100/s}
    operations: [{search: {base: ""}}]
"""


def job_of(load: str, *overrides: str, files: Any = None) -> Job:
    return load_job_text(
        STAGES,
        file="job",
        base=None,
        overrides=[f"streams.load.load={load}", *overrides],
        files=files,
    )


def profile_of(load: str, *overrides: str, files: Any = None) -> Profile:
    job = job_of(load, *overrides, files=files)
    return stream_profile(job.run, job.streams[0])


def test_stages_follow_one_another_over_the_measure_phase() -> None:
    stages = (
        "{rate: 100/s, for: 5s}, {ramp_to: 300/s, for: 5s}, {ramp_to: 200/s, for: 10s}"
    )
    profile = profile_of(f"{{stages: [{stages}]}}")
    assert profile[:4] == (
        ramp(0, 100 / S, 2 * S),
        hold(100 / S, 8 * S),
        ramp(100 / S, 300 / S, 5 * S),
        ramp(300 / S, 200 / S, 10 * S),
    )
    # the last rate holds
    assert rate_at(profile, 26 * S) == pytest.approx(200 / S)


def test_multiples_are_of_the_rate() -> None:
    stages = "[{rate: 0.5x, for: 5s}, {ramp_to: 3x, for: 5s}]"
    lower = profile_of(f"{{rate: 100/s, stages: {stages}}}")
    higher = profile_of(f"{{rate: 200/s, stages: {stages}}}")
    assert rate_at(lower, 7 * S) == pytest.approx(50 / S)
    for second in range(30):
        assert arrivals_by(higher, second * S) == pytest.approx(
            2 * arrivals_by(lower, second * S)
        )


@pytest.mark.parametrize(
    ("shape", "arrivals"), [("step", 100 * 5 + 300 * 5), ("ramp", 200 * 5 + 300 * 5)]
)
def test_table_is_of_steps_or_of_straight_lines(shape: str, arrivals: int) -> None:
    profile = profile_of(
        f"{{stages: {{file: rates.csv, shape: {shape}}}}}",
        files={"rates.csv": b"time,rate\n0,100\n5,300\n10,300\n"},
    )
    assert arrivals_by(profile, 15 * S) - arrivals_by(profile, 5 * S) == pytest.approx(
        arrivals
    )
    assert rate_at(profile, 60 * S) == pytest.approx(300 / S)


def test_job_whose_files_are_not_looked_into_still_loads() -> None:
    job = job_of("{stages: {file: rates.csv}}")
    (stream,) = job.streams
    assert stream.load.kind == "open"
    assert not stream.load.is_known
    assert job.named_files() == ("rates.csv",)
    assert load_job_text(job.canonical_text(), file="job", base=None) == job


def test_backlog_by_time_is_of_the_highest_rate() -> None:
    job = job_of("{stages: [{ramp_to: 500/s, for: 20s}], max_backlog: 2s}")
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    assert plan.max_backlog == 1000


@given(
    rates=st.lists(st.integers(0, 10_000), min_size=1, max_size=5),
    agents=st.integers(1, 5),
)
def test_every_agent_has_the_whole_profile(rates: list[int], agents: int) -> None:
    stages = ", ".join(f"{{ramp_to: {rate}/s, for: 3s}}" for rate in rates)
    job = job_of(f"{{stages: [{stages}], connections: 7}}")
    plans = [agent_plan(job, index, agents, seed=1).streams for index in range(agents)]
    profiles = {streams[0].profile for streams in plans if streams}
    assert profiles == {stream_profile(job.run, job.streams[0])}
    assert peak_rate(next(iter(profiles))) == pytest.approx(max(rates) / S)


def test_policies_of_connections_reach_the_plan() -> None:
    def plan(**changes: str) -> Any:
        overrides = [f"streams.load.connection.{k}={v}" for k, v in changes.items()]
        job = job_of("{rate: 1/s}", *overrides)
        return agent_plan(job, 0, 1, seed=1).streams[0].connection

    assert plan().reconnect_operations == plan().reconnect_ns == 0
    assert plan(reconnect_every="500").reconnect_operations == 500
    assert plan(reconnect_every="30s").reconnect_ns == 30 * S
    assert plan(reconnect_wait="2s").reconnect_wait_ns == 2 * S
    assert plan(per_operation="true").reconnect_operations == 1
    assert plan(spacing="200/s").connect_spacing_ns == 5_000_000


def test_counts_and_times_of_a_stream_reach_the_plan() -> None:
    job = job_of(
        "{rate: 1/s, arrivals: uniform}",
        "streams.load.count=5",
        "streams.load.start_after=1s",
        "streams.load.stop_after=9s",
    )
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    assert (plan.total_operations, plan.start_ns, plan.end_ns) == (5, S, 9 * S)
    assert plan.arrivals == "uniform"


def test_sasl_and_certificates_reach_the_plan() -> None:
    job = job_of(
        "{rate: 1/s}",
        "bind={sasl: {mechanism: SCRAM-SHA-256, authcid: u, authzid: 'u:v', "
        "realm: r, password: {env: P}}}",
        "tls={cert_file: /etc/c.pem, key_file: /etc/k.pem}",
    )
    (plan,) = agent_plan(job, 0, 1, seed=1).streams
    assert plan.connection.bind == BindSettings(
        mechanism="SCRAM-SHA-256",
        authcid="u",
        authzid="u:v",
        realm="r",
        password=SecretRef(env="P"),
    )
    tls = plan.connection.tls
    assert (tls.cert_file, tls.key_file) == ("/etc/c.pem", "/etc/k.pem")
