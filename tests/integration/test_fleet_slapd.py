# SPDX-License-Identifier: Apache-2.0
"""A fleet with real engines against a real slapd: books balance, errors travel."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ldapslam.base.errors import BindRejected, ExitCode, TlsHandshakeFailed
from ldapslam.cli.client import job_request
from ldapslam.lab.certificates import Authority
from ldapslam.transport.messages import error_of
from support.fleet import FINAL, FleetOfProcesses, job_text
from support.intervals import stored_intervals
from support.lab import Lab


def test_agents_count_what_the_server_counts(fleet: FleetOfProcesses, lab: Lab) -> None:
    fleet.start("a", "b", "c")
    uri = lab.supplier.uri
    before = lab.monitor_counts(lab.supplier)
    run_id = fleet.submit(job_text(uri, clients=7))
    status = fleet.wait_for(run_id, *FINAL)
    after = lab.monitor_counts(lab.supplier)
    assert status.state == "finished", fleet.logs()

    counted: Counter[str] = Counter()
    with fleet.opened_store() as store:
        for record in stored_intervals(store, run_id):
            for row in record.operations:
                for name in ("scheduled", "sent", "completed", "succeeded", "dropped"):
                    counted[name] += getattr(row, name)
                counted["open"] += row.timed_out + row.unresolved
        facts = store.agents(run_id)
        manifest = store.run(run_id).manifest
    assert counted["scheduled"] == counted["sent"] + counted["dropped"]
    assert counted["sent"] == counted["completed"] + counted["open"]
    assert counted["succeeded"] > 0
    # the searches of the agents' preflight are known
    control = manifest["control_operations"][uri]
    assert control["search"] == sum(
        one["control_operations"][uri]["search"] for one in facts.values()
    )
    assert after["search"] - before["search"] == counted["sent"] + control["search"]


def test_an_agent_without_a_share_of_the_load_is_left_out(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    fleet.start("a", "b")
    run_id = fleet.submit(job_text(lab.supplier.uri, duration="400ms", clients=1))
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert list(status.agents) == ["a"]
    assert [event.kind for event in status.events] == ["agents_left_out"]


def test_a_wrong_password_fails_the_run_before_any_load(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    (fleet.folder / "password").write_text("not it")
    password = {"file": str(fleet.folder / "password")}
    fleet.start("a")
    run_id = fleet.submit(
        job_text(lab.supplier.uri, bind={"dn": lab.admin_dn, "password": password})
    )
    status = fleet.wait_for(run_id, *FINAL)
    error = error_of(status.failure)
    assert isinstance(error, BindRejected)
    assert error.exit_code is ExitCode.TARGET
    assert error.result_code == 49
    assert not status.t0_utc


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_the_jobs_authority_travels_to_the_agents(
    fleet: FleetOfProcesses, lab: Lab, tmp_path: Path, is_right: bool
) -> None:
    ca_file = lab.ca_file if is_right else Authority(tmp_path).ca_file
    fleet.start("a")
    text = job_text(
        lab.supplier.ldaps_uri, duration="400ms", tls={"ca_file": "certs/ca.pem"}
    )
    with fleet.client() as client:
        run_id = client.submit(
            job_request(
                text.encode(),
                job_file="job.json",
                files={"certs/ca.pem": ca_file.read_bytes()},
            )
        )
    status = fleet.wait_for(run_id, *FINAL)
    if is_right:
        assert status.state == "finished", fleet.logs()
    else:
        error = error_of(status.failure)
        assert isinstance(error, TlsHandshakeFailed)
        assert "unknown authority" in str(error)
    work = fleet.folder / "spool" / "a" / "work"
    fleet.wait_until(
        lambda: not list(work.iterdir()), "nothing of the job stays on the agent"
    )
