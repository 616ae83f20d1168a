# SPDX-License-Identifier: Apache-2.0
"""Plans of all agents together are the job, exactly."""

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
from ldapslam.jobs.plan import StreamPlan, agent_plan, participants, share
from ldapslam.jobs.rates.profile import FOREVER_NS, hold, ramp

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
