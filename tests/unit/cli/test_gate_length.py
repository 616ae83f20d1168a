# SPDX-License-Identifier: Apache-2.0
"""How long the runs of a gate are, by its time and its job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import NS_PER_S
from ldapslam.cli.study.gate_length import fitted
from ldapslam.cli.study.gate_sides import Side, side_of
from ldapslam.cli.submission import JobFile

#: As `new` writes it.
JOB = """\
name: first
targets: {directory: ["ldap://one"]}
run: {warm_up: 3s, duration: 30s}
streams:
  - name: lookups
    target: directory
    load: {rate: 50/s, connections: 8}
    operations: [{search: {base: "dc=example,dc=com", filter: "(uid=a)"}}]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "first.yaml"
    path.write_text(JOB)
    return path


def sides_of(job: Path, *overrides: str) -> Mapping[str, Side]:
    return {
        name: side_of(name, [uri], JobFile(job), overrides, None)
        for name, uri in (("old", "ldap://one"), ("new", "ldap://two"))
    }


@pytest.mark.parametrize(
    ("override", "limit_s", "length_s"),
    [
        # 20 runs of 33.5 s take 670 s
        ("", 670, 30),
        ("", 669, 29),
        ("", 300, 11),
        ("run.interval=2s", 300, 10),
        # no shorter than three seconds, of which 12 runs take 78 s
        ("", 78, 3),
        ("", 77, None),
        # a threshold that shorter runs could not miss
        ("thresholds=[p99 < 5ms for 11s]", 300, 11),
        ("thresholds=[p99 < 5ms for 20s]", 300, 20),
        ("thresholds=[p99 < 5ms for 40s]", 300, 11),
        # what else ends the stream; 12 runs of 33.5 s take 402 s
        ("streams.0.stop_after=20s", 402, 30),
        ("streams.0.stop_after=20s", 401, None),
        ("streams.0.count=5", 1, 30),
    ],
)
def test_runs_are_no_longer_than_the_time_allows_for_ten_pairs(
    job: Path, override: str, limit_s: int, length_s: int | None
) -> None:
    given = sides_of(job, *filter(None, [override]))
    if length_s is None:
        with pytest.raises(ConfigError, match="6 runs of each side"):
            fitted(given, limit_s * NS_PER_S)
        return
    sides, note = fitted(given, limit_s * NS_PER_S)
    assert {one.job.run.duration_ns for one in sides.values()} == {length_s * NS_PER_S}
    assert (sides == given) is (length_s == 30) is not bool(note)


def test_runs_against_a_baseline_are_not_made_shorter(job: Path) -> None:
    new = {"new": sides_of(job)["new"]}
    assert fitted(new, 201 * NS_PER_S) == (new, "")
    with pytest.raises(ConfigError, match="with a measure phase of 30s, take 201s"):
        fitted(new, 200 * NS_PER_S)
