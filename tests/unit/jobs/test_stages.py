# SPDX-License-Identifier: Apache-2.0
"""The load of a job over time: from the file's stages to the plan's profile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.secrets import SecretRef
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.connection_settings import BindSettings
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan, stream_profile
from ldapslam.jobs.rates.profile import (
    Profile,
    arrivals_by,
    hold,
    peak_rate,
    ramp,
)
from support.profiles import rate_at

S = NS_PER_S

TEXT = """\
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
        TEXT,
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
