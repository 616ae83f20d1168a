# SPDX-License-Identifier: Apache-2.0
"""From a request to a run: record, limits, what agents get, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ldapslam import __version__
from ldapslam.base.errors import AgentVersionMismatch, ConfigError, JobErrors
from ldapslam.coordinator.fleet.selection import Selection
from ldapslam.coordinator.runs.run import RunLimits
from ldapslam.coordinator.runs.submission import check_version, load_submission
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.run_plan import PhaseSpan
from ldapslam.transport.messages import PROTOCOL_VERSION, ProtocolError
from support.fleet import job_text, submission

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
S = 1_000_000_000


def test_a_job_becomes_a_run() -> None:
    text = job_text("ldap://DS1:389", duration="1s", clients=3, seed=7)
    loaded = load_submission(submission(text), NOW)
    record = loaded.record
    assert record.run_id.startswith("20260301-120000-")
    assert (record.job_name, record.seed, record.state) == ("fleet-test", 7, "queued")
    assert record.plan.phases == (PhaseSpan("measure", 0, S),)
    assert record.plan.boundaries_ns[-1] == S
    assert [stream.name for stream in record.plan.streams] == ["readers"]
    assert record.plan.validity == Validity()
    assert loaded.limits == RunLimits(planned_ns=S, grace_ns=S)
    assert loaded.selection == Selection(most=3)
    assert loaded.targets == {"ds1"}
    assert loaded.assignment.seed == 7
    assert loaded.assignment.job_text.decode() == text


def test_a_run_without_a_seed_gets_one() -> None:
    seeds = {load_submission(submission(job_text()), NOW).record.seed for _ in range(3)}
    assert len(seeds) == 3


def test_overrides_count() -> None:
    overrides = ["run.duration=5s", "on_agent_loss=continue"]
    loaded = load_submission(submission(job_text(), overrides=overrides), NOW)
    assert loaded.limits.planned_ns == 5 * S
    assert not loaded.limits.stop_on_loss
    assert list(loaded.assignment.overrides) == overrides


def test_a_file_that_was_not_sent_along_is_refused() -> None:
    text = job_text(tls={"ca_file": "ca.pem"})
    with pytest.raises(ProtocolError, match=r"ca\.pem"):
        load_submission(submission(text), NOW)
    loaded = load_submission(submission(text, files={"ca.pem": b"x", "y": b"z"}), NOW)
    # only what the job names goes on to the agents
    assert dict(loaded.assignment.files) == {"ca.pem": b"x"}
    assert list(loaded.record.manifest.files) == ["ca.pem"]


def test_all_faults_of_a_job_are_told() -> None:
    with pytest.raises(JobErrors) as caught:
        load_submission(submission('{"name": "x", "colour": 1}'), NOW)
    assert len(caught.value.faults) >= 3


OLDER = f"install ldapslam {__version__} there: the coordinator"


@pytest.mark.parametrize(
    ("protocol", "build", "hint"),
    [
        (PROTOCOL_VERSION - 1, __version__, OLDER),
        (PROTOCOL_VERSION, "0.0.1", OLDER),
        (PROTOCOL_VERSION + 1, "99.10", "upgrade the coordinator to ldapslam 99.10"),
        # compared as numbers, not as texts
        (PROTOCOL_VERSION, "99.0", "upgrade the coordinator to ldapslam 99.0"),
        (PROTOCOL_VERSION, f"{__version__}+local", "install the same ldapslam on both"),
    ],
)
def test_another_version_is_refused_and_told_which_side_goes_first(
    protocol: int, build: str, hint: str
) -> None:
    with pytest.raises(AgentVersionMismatch) as caught:
        check_version("load-1", protocol, build)
    assert str(caught.value.hint).startswith(hint)
    with pytest.raises(AgentVersionMismatch) as caught:
        load_submission(
            submission(job_text(), protocol_version=protocol, build=build), NOW
        )
    assert f"protocol {protocol} (ldapslam {build})" in str(caught.value)
    ours = f"protocol {PROTOCOL_VERSION} (ldapslam {__version__})"
    assert ours in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"not_before_utc": "soon"}, "'soon' cannot be read"),
        ({"not_before_utc": "2026-03-01T12:00"}, "no offset"),
        ({"after_if": 17}, "condition"),
    ],
)
def test_a_time_or_condition_that_cannot_be_read_is_refused(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        load_submission(submission(job_text(), **fields), NOW)
