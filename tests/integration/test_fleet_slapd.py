# SPDX-License-Identifier: Apache-2.0
"""A fleet with real engines against a real slapd: what travels to agents and back."""

from __future__ import annotations

from pathlib import Path

from ldapslam.base.errors import TlsHandshakeFailed
from ldapslam.lab.certificates import Authority
from ldapslam.transport.messages import error_of
from support.fleet import FINAL, FleetOfProcesses, job_text
from support.lab import Lab


def test_the_jobs_authority_travels_to_the_agents_that_have_a_share_of_the_load(
    fleet: FleetOfProcesses, lab: Lab, tmp_path: Path
) -> None:
    fleet.start("a", "b")
    text = job_text(
        lab.supplier.ldaps_uri,
        duration="400ms",
        clients=1,
        tls={"ca_file": "certs/ca.pem"},
    )
    run_id = fleet.submit(text, files={"certs/ca.pem": lab.ca_file.read_bytes()})
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert list(status.agents) == ["a"]
    assert [event.kind for event in status.events] == ["agents_left_out"]

    other = Authority(tmp_path).ca_file.read_bytes()
    run_id = fleet.submit(text, files={"certs/ca.pem": other})
    error = error_of(fleet.wait_for(run_id, "failed").failure)
    assert isinstance(error, TlsHandshakeFailed)
    assert "unknown authority" in str(error)
    work = fleet.folder / "spool" / "a" / "work"
    fleet.wait_until(
        lambda: not list(work.iterdir()), "nothing of the job stays on the agent"
    )
