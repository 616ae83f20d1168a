# SPDX-License-Identifier: Apache-2.0
"""The job type bulk_load: what it makes of its options, and which it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission.preflight import probes
from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan

JOB = """\
name: import
targets: {{here: "ldap://localhost"}}
run: {{interval: 1s}}
streams:
  - name: load
    target: here
    type: bulk_load
    options: {options}
    {more}
"""


def plan_of(options: str, more: str = "", **files: Path) -> AgentPlan:
    text = JOB.format(options=options, more=more).encode()
    job = load_job_text(text, file="import.yaml", base=None, files=files)
    return agent_plan(job, 0, 1, 0)


def options_of(plan: AgentPlan) -> dict[str, Any]:
    (stream,) = plan.streams
    assert stream.python is not None
    return dict(stream.python.options)


def test_one_client_imports_once_and_the_target_need_not_be_there() -> None:
    plan = plan_of("{server: slapd}")
    (stream,) = plan.streams
    assert (stream.connections, stream.total_operations) == (1, 1)
    assert options_of(plan) == {
        "server": "slapd",
        "method": "offline",
        "quick": True,
        "template": "people",
        "settings": {},
    }
    assert probes(plan) == []


def test_the_count_is_the_job_s() -> None:
    (stream,) = plan_of("{server: 389ds, method: online}", "count: 3").streams
    assert stream.total_operations == 3


def test_a_template_of_one_s_own_is_sent_along(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("branch: dc=example,dc=com\n")
    plan = plan_of("{server: slapd, template_file: own}", own=own)
    assert options_of(plan)["template_text"] == "branch: dc=example,dc=com\n"


def test_a_stream_has_no_more_imports_than_are_noted() -> None:
    with pytest.raises(JobErrors, match="a stream has at most 100"):
        plan_of("{server: slapd}", "count: 101")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("{server: slapd, ldif: /x.ldif, entries: 5}", "ldif excludes entries"),
        ("{server: slapd, template: p, template_file: own}", "exclude each other"),
        ("{server: slapd, place: mnt}", "expected an absolute path"),
        ("{server: slapd, settings: {moduleload: ppolicy}}", "an absolute path"),
        ("{server: slapd, settings: {Include: [/a, b]}}", "expected an absolute path"),
        ("{server: 389ds, quick: false}", "quick is of slapd and offline"),
        ("{server: slapd, method: online, quick: true}", "quick is of slapd"),
    ],
)
def test_options_that_do_not_go_together(
    options: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text("branch: dc=example,dc=com\n")
    with pytest.raises(JobErrors, match=fault):
        plan_of(options, own=tmp_path / "own")
