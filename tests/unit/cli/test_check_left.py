# SPDX-License-Identifier: Apache-2.0
"""What `check --write` has left is told, by the next one where it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.agent.ledgers.folder import locked, run_folder
from ldapslam.cli.measure import check_samples
from ldapslam.cli.measure.check_samples import Sent, left_before, sample
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan
from ldapslam.jobs.sampling import sample_plans
from ldapslam.jobs.scripts import Writes

RUN = "20260301-120000-aaaaaa"


def test_a_killed_check_is_told_and_one_under_way_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert not list(left_before())
    folder = run_folder(tmp_path / "ldapslam" / "spool" / "check", RUN)
    folder.mkdir(parents=True)
    (folder / "clean-up.json").touch()
    with locked(folder):
        assert not list(left_before())
    (warning,) = left_before()
    assert f"`ldapslam run --cleanup {RUN}`" in warning


JOB = """\
name: left
targets: {directory: ldap://a}
run: {duration: 10s}
streams:
  - name: writers
    load: {clients: 1}
    operations:
      - add: {dn: "cn=[uuid],dc=com", entry: {objectClass: device}}
      - bind: {dn: "cn=a,dc=com", password: secret}
"""


def test_each_of_the_runs_that_left_entries_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def send(plan: AgentPlan) -> Sent:
        return Sent(plan, [], f"left by {plan.streams[0].operations[0].kind}")

    monkeypatch.setattr(check_samples, "_send", send)
    job = load_job_text(JOB, file="left.yaml", base=None)
    (plan,) = sample_plans(job, 2, Writes.OWN)
    assert sample(plan).left == ("left by add", "left by add")
