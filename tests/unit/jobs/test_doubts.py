# SPDX-License-Identifier: Apache-2.0
"""What is said of a job that may not do what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.jobs.doubts import doubts, unsupported_thresholds
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.model import Job

JOBS = Path(__file__).parents[3] / "configs/jobs"

JOB = """\
name: few
targets: {{server: "ldap://127.0.0.1:1", replica: "ldap://127.0.0.1:2"}}
run: {{warm_up: 1m, duration: 10s}}
thresholds: ["{threshold}"]
streams:
  - name: open
    target: server
    load: {{rate: 100/s, connections: 1}}
    operations:
      - search: {{base: ""}}
        weight: 3
      - sequence:
          - compare: {{dn: "cn=a", attribute: cn, value: a}}
            repeat: 4
          - unbind: {{}}
      - search: {{base: "", page_size: 10}}
        name: paged
  - name: counted
    target: server
    load: {{clients: 1}}
    count: 999
    operations: [{{search: {{base: ""}}}}]
  - name: closed
    target: server
    load: {{clients: 1}}
    operations: [{{search: {{base: ""}}}}]
  - name: probe
    target: server
    type: replication_probe
    options: {{replicas: replica, dn: "cn=probe"}}
"""


def job_of(threshold: str, *overrides: str) -> Job:
    text = JOB.format(threshold=threshold)
    return load_job_text(text, file="few.yaml", base=None, overrides=overrides)


def warnings(threshold: str) -> list[str]:
    return list(unsupported_thresholds(job_of(threshold)))


def test_a_larger_count_does_not_fill_an_interval() -> None:
    [warning] = warnings("counted.search.response_time.p99 < 5ms for 5s")
    assert "--set run.interval=" in warning
    [warning] = warnings("counted.search.response_time.p99 < 5ms")
    assert "a larger `count` of counted" in warning


def test_a_proposed_length_has_room_for_arrivals_that_are_drawn() -> None:
    """600 of the first 10 s: 1,000 need 16.7 s on average, and hardly ever more than
    18.3 s."""
    [warning] = warnings("open.search.response_time.p99 < 1s")
    assert "; --set run.duration=19s, or a lower percentile" in warning


@pytest.mark.parametrize(
    ("threshold", "planned"),
    [
        # 600 of 1,000 arrivals, and 200 sessions with four compares
        ("open.search.response_time.p99.9 < 1s", "about 600 of open.search"),
        ("open.search.response_time.p99 < 1s", "about 600 of open.search"),
        ("open.compare.service_time.p99 < 1s", "about 800 of open.compare"),
        ("counted.search.response_time.p99 < 1s", "about 999 of counted.search"),
        ("probe.write.response_time.p95 < 1s", "about 50 of probe.write"),
        ("probe.propagation-replica.response_time.p90 < 1s", "about 50 of probe.prop"),
    ],
)
def test_too_few_requests_are_told(threshold: str, planned: str) -> None:
    (warning,) = warnings(threshold)
    assert repr(threshold) in warning
    assert planned in warning


def test_each_operation_of_a_threshold_for_all_is_named() -> None:
    told = " ".join(warnings("*.*.response_time.p99 < 1s"))
    for name in ("open.search", "open.compare", "counted.search", "probe.write"):
        assert f" of {name} " in told


@pytest.mark.parametrize(
    "threshold",
    [
        "open.search.response_time.p95 < 1s",
        "open.search.response_time.max < 1s",
        "open.search.throughput > 1/s",
        "open.paged.response_time.p99_99 < 1s",
        "counted.search.response_time.p95 < 1s",
        "closed.search.response_time.p99_99 < 1s",
        "closed.*.connect_time.p99 < 1s",
        "probe.write.response_time.p50 < 1s",
    ],
)
def test_nothing_is_said_where_there_are_enough_or_that_is_not_known(
    threshold: str,
) -> None:
    assert warnings(threshold) == []


def test_requests_as_somebody_else_are_told() -> None:
    bind = "{bind: {dn: cn=a, password: x}}"
    operations = f"streams.counted.operations=[{bind}, {{search: {{base: ''}}}}]"
    job = job_of("open.*.errors < 1%", operations)
    (warning,) = doubts(job)
    assert warning.startswith(
        "stream counted: 'search' runs as the user whose 'bind' was before"
    )
    assert "add reconnect_every: 1 (--reconnect-every 1)" in warning


@pytest.mark.parametrize(
    "path", sorted(JOBS.glob("*.yaml")), ids=lambda path: str(path.name)
)
def test_ready_jobs_do_what_they_say(path: Path) -> None:
    assert list(doubts(load_job(path))) == []


@pytest.mark.parametrize(
    ("filter", "is_told"),
    [
        ("(uid=${user})", True),
        ("(uid=user.[0-999%0000])", False),
        ("(uid=user.[random:8:abc{}])", False),
        ("(cn=50% duty)", False),
        ("(&(cn<=a)(sn>=b))", False),
    ],
)
def test_a_reference_without_a_variable_is_told(filter: str, is_told: bool) -> None:
    search = f"streams.closed.operations.search.filter={filter}"
    found = list(doubts(job_of("open.*.errors < 1%", search)))
    expected = f"closed.search: '${{user}}' in `filter: {filter}`"
    assert [one.startswith(expected) for one in found] == [True] * is_told


@pytest.mark.parametrize(("hold", "is_told"), [("10s", False), ("11s", True)])
def test_a_time_longer_than_the_measure_phase_is_told(hold: str, is_told: bool) -> None:
    found = list(doubts(job_of(f"closed.search.errors < 1% for {hold}")))
    assert ["cannot be missed" in one for one in found] == [True] * is_told


def test_requests_that_are_expected_stand_in_for_those_that_are_planned() -> None:
    job = job_of("closed.search.response_time.p99 < 1s")
    assert list(unsupported_thresholds(job)) == []
    place = "closed", "search"
    assert list(unsupported_thresholds(job, {place: 1_000.0})) == []
    (warning,) = unsupported_thresholds(job, {place: 999.0})
    assert "about 999 of closed.search are expected by the times of" in warning


@pytest.mark.parametrize(
    ("threshold", "is_told"),
    [
        # three of five sessions, of 100/s
        ("open.search.throughput >= 60/s", True),
        ("open.search.goodput > 80/s", True),
        ("open.search.throughput >= 59/s", False),
        ("open.search.throughput <= 80/s", False),
        ("closed.search.throughput >= 80/s", False),
    ],
)
def test_a_rate_that_is_not_offered_is_told(threshold: str, is_told: bool) -> None:
    found = [one for one in doubts(job_of(threshold)) if "asks for all that" in one]
    expected = "open.search has about 60/s; ask for some percent less"
    assert [one.endswith(expected) for one in found] == [True] * is_told


def staged(run: str, **more: str) -> Job:
    text = f"""\
name: staged
targets: {{server: "ldap://127.0.0.1"}}
run: {{{run}}}
streams:
  - name: readers
    target: server
    load: {{{STAGES}}}
    operations: [{{search: {{base: ""}}}}]
"""
    text += "".join(f"    {name}: {value}\n" for name, value in more.items())
    return load_job_text(text, file="staged.yaml", base=None)


STAGES = (
    "stages: [{rate: 100/s, for: 4s}, {ramp_to: 150/s, for: 8s}, {rate: 0/s, for: 4s}]"
)


@pytest.mark.parametrize(
    ("run", "more", "said"),
    [
        (
            "duration: 10s",
            {},
            "16s, and 10s of them are measured; --set run.duration=16s",
        ),
        (
            "warm_up: 2s, duration: 16s",
            {"start_after": "5s"},
            "16s, and 13s of them are measured; --set run.duration=19s",
        ),
        (
            "duration: 16s",
            {"stop_after": "15s"},
            "15s of them are measured; stop it later",
        ),
    ],
)
def test_stages_and_a_measure_phase_of_other_lengths(
    run: str, more: dict[str, str], said: str
) -> None:
    (warning,) = doubts(staged(run, **more))
    assert warning.startswith("stream readers: its stages take 16s")
    assert said.removeprefix("16s") in warning


@pytest.mark.parametrize("run", ["duration: 16s", "duration: 33s"])
def test_stages_that_fill_the_measure_phase_are_fine(run: str) -> None:
    assert list(doubts(staged(run))) == []
