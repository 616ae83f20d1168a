# SPDX-License-Identifier: Apache-2.0
"""The replication probe measures what a known delay adds to propagation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import ldapslam
from support.lab import FAST, Lab
from support.relay import Relay

pytestmark = pytest.mark.accuracy

DELAY_S, TOLERANCE_S = 0.100, 0.005
JOB = """\
name: propagation
targets: {{supplier: "{supplier}", replica: "{replica}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: 4s, warm_up: 500ms, interval: 500ms}}
streams:
  - name: probe
    target: supplier
    type: replication_probe
    options: {{replicas: replica, dn: "cn=probe,dc=example,dc=com", rate: 25/s}}
"""


@pytest.fixture(scope="module")
def lab(slapd_installed: None) -> Iterator[Lab]:
    with Lab(replicas=1, entries=100, choices=FAST) as lab:
        yield lab


def median_s(lab: Lab, folder: Path) -> float:
    """Of the propagation to the replica."""
    job = folder / "propagation.yaml"
    job.write_text(lab.job(JOB, replica=lab.replicas[0].uri))
    ended = ldapslam("run", job, "--json", cwd=folder)
    assert ended.stdout, ended.stderr
    probe = json.loads(ended.stdout)["streams"]["probe"]
    propagation = probe["propagation-replica"]
    assert propagation["succeeded"] == propagation["sent"] == 100
    median_us: float = propagation["response_time_us"]["p50"]
    return median_us / 1e6


def test_a_relay_of_100_ms_adds_100_ms_to_propagation(lab: Lab, tmp_path: Path) -> None:
    """Over the same relay, without and with its delay; the delay is one way."""
    replica = lab.replicas[0]
    with Relay(lab.supplier.uri.removeprefix("ldap://")) as relay:
        lab.pause_replication(replica)
        lab.resume_replication(replica, through=relay.address)
        lab.wait_in_sync(20)
        without_s = median_s(lab, tmp_path)
        relay.delay_s = DELAY_S
        with_s = median_s(lab, tmp_path)
        lab.pause_replication(replica)
    assert without_s < DELAY_S
    assert with_s - without_s == pytest.approx(DELAY_S, abs=TOLERANCE_S)
