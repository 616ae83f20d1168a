# SPDX-License-Identifier: Apache-2.0
"""What observers report: taken when it can be kept, refused when it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ldapslam.base.errors import FleetError, RunAborted
from ldapslam.coordinator.fleet.selection import first_of_each_host
from ldapslam.coordinator.runs.ingest import monitor_news, with_report
from ldapslam.coordinator.runs.run import (
    MonitorEnded,
    MonitorPrepared,
    MonitorProgressed,
)
from ldapslam.proto import monitor_pb2 as pb
from ldapslam.results.facts import (
    Observation,
    Observed,
    ObserverCost,
    Reading,
    ReplicationFacts,
)
from ldapslam.results.records import Metric, MonitorSample
from ldapslam.transport.messages import ProtocolError, failure_message

URI = "ldap://ds1"


def report(**kind: Any) -> pb.MonitorReport:
    return pb.MonitorReport(run_id="r", agent="a", event=pb.MonitorEvent(**kind))


def one_sample(**fields: Any) -> pb.MonitorSamples:
    return pb.MonitorSamples(samples=[pb.MonitorSample(**fields)])


def facts(**of: Any) -> str:
    return json.dumps(of)


def test_what_is_observed_is_what_was_reported() -> None:
    ready = pb.MonitorReady(
        monitors=[
            pb.MonitorDescription(
                name="host h",
                metrics=[
                    pb.MonitorMetric(name="cpu_user", unit="s", is_counter=True),
                    pb.MonitorMetric(name="memory_used", unit="bytes"),
                ],
                facts_json=facts(cores=2),
            )
        ],
        facts_json=facts(observations={URI: {"kind": "slapd"}}),
    )
    found = monitor_news(report(ready=ready), 10)
    assert found.event == MonitorPrepared("a")
    (monitor,) = found.monitors
    assert monitor.metrics == [
        Metric("cpu_user", "s", "counter"),
        Metric("memory_used", "bytes", "gauge"),
    ]
    assert monitor.facts.document() == {"cores": 2}
    assert found.facts == Observed(observations={URI: Observation(kind="slapd")})

    samples = [
        pb.MonitorSample(monitor="host h", at_ns=-5, took_ns=7, values=[1.0, 2.0]),
        pb.MonitorSample(monitor="host h", at_ns=9, failure="no answer"),
    ]
    taken = monitor_news(report(samples=pb.MonitorSamples(samples=samples)), 10)
    assert taken.event == MonitorProgressed("a")
    assert taken.samples == [
        MonitorSample("host h", -5, 7, (1.0, 2.0), None),
        MonitorSample("host h", 9, 0, (), "no answer"),
    ]
    for error in (RunAborted("it fell over"), FleetError("it may not")):
        failed = monitor_news(report(failed=failure_message(error)), 10).event
        assert isinstance(failed, MonitorEnded)
        assert str(error) in failed.reason
        assert isinstance(failed.refusal, FleetError) == isinstance(error, FleetError)
    ended = monitor_news(finished(replication={}), 10)
    assert ended.facts == Observed(replication=ReplicationFacts())


def finished(**of: Any) -> pb.MonitorReport:
    return report(finished=pb.MonitorFinished(facts_json=facts(**of)))


@pytest.mark.parametrize(
    "of",
    [
        {"observations": {URI: {"before": {"operations": {"add": 1.5}}}}},
        {"replication": {"trees": [{"suffix": "dc=example"}]}},
        {"t0": {"mono_ns": 0}},
        {"observations": {URI: {"facts": json.loads("[" * 30 + "]" * 30)}}},
    ],
)
def test_facts_that_a_report_could_stumble_over_are_refused(of: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        monitor_news(finished(**of), 10)


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"samples": one_sample(monitor="")},
        {"samples": one_sample(monitor="x", took_ns=-1)},
    ],
)
def test_what_cannot_be_kept_is_refused(kind: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        monitor_news(report(**kind), 10)


def test_samples_of_no_time_of_the_run_are_left_out() -> None:
    samples = [
        pb.MonitorSample(monitor="x", at_ns=at_ns)
        for at_ns in (-(2**63), -3_600_000_000_001, -5, 10, 11, 2**63 - 1)
    ]
    news = monitor_news(report(samples=pb.MonitorSamples(samples=samples)), 10)
    assert [one.at_ns for one in news.samples] == [-5, 10]


def test_what_is_found_later_joins_what_was_found_before() -> None:
    other = Observation(kind="389-ds")
    known = Observed(
        observations={URI: Observation(kind="slapd", before=Reading())},
        observer_cost=ObserverCost(cpu_s=1.5),
    )
    news = Observed(
        observations={URI: Observation(after=Reading()), "ldap://ds2": other},
        observer_cost=ObserverCost(cpu_s=0.5),
        replication=ReplicationFacts(converged=True),
    )
    assert with_report(known, news).document() == {
        "observations": {
            URI: {"kind": "slapd", "before": {}, "after": {}},
            "ldap://ds2": {"kind": "389-ds"},
        },
        "observer_cost": {"cpu_s": 2.0},
        "replication": {"converged": True},
    }


@pytest.mark.parametrize(
    ("agents", "hosts", "observers"),
    [
        # without a session nothing is known of an agent's host
        ("ab", {}, {"a", "b"}),
        ("ab", {"a": "", "b": ""}, {"a", "b"}),
        ("abc", {"a": "h1", "b": "h1", "c": "h2"}, {"a", "c"}),
        ("bac", {"a": "h1", "b": "h1", "c": "h2"}, {"b", "c"}),
    ],
)
def test_of_the_agents_of_one_host_the_first_one_observes(
    agents: str, hosts: dict[str, str], observers: set[str]
) -> None:
    assert first_of_each_host(tuple(agents), hosts) == observers
