# SPDX-License-Identifier: Apache-2.0
"""How long the runs of a gate are, where the time is too short for those of its job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import NS_PER_S
from ldapslam.cli.study.gate_length import fitted
from ldapslam.cli.study.gate_sides import Side, side_of
from ldapslam.cli.submission import JobFile

#: As `job new` writes it.
JOB = """\
job: first
targets: {directory: ["ldap://one"]}
run: {warm_up: 3s, duration: 30s}
streams:
  - name: lookups
    target: directory
    load: {open: {rate: 50/s, connections: 8}}
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


def lengths_s(sides: Mapping[str, Side]) -> set[float]:
    return {one.job.run.duration_ns / NS_PER_S for one in sides.values()}


def test_the_first_job_of_a_directory_fits_the_default_time(job: Path) -> None:
    """20 runs of 14.5 s in five minutes; in whole intervals."""
    sides, note = fitted(sides_of(job), 300 * NS_PER_S)
    assert lengths_s(sides) == {11.0}
    assert sides["new"].point.overrides[-1] == "run.duration=11s"
    assert note == (
        "10 pairs of runs of 30s take longer than 5m: the measure phase was made 11s "
        "long (--set run.duration=11s); --time 13m is enough for runs as the job has "
        "them."
    )


def test_runs_that_fit_stay_as_they_are(job: Path) -> None:
    """12 runs of 33.5 s take 402 s."""
    given = sides_of(job)
    assert fitted(given, 402 * NS_PER_S) == (given, "")
    assert lengths_s(fitted(given, 401 * NS_PER_S)[0]) == {16.0}


@pytest.mark.parametrize(
    ("overrides", "limit_s", "hint"),
    [
        # said with --set, on the command line itself
        (("run.duration=30s",), 300, "--time 13m is enough for 10"),
        # less than three seconds each
        (
            (),
            120,
            "--time 150s is enough for 10 pairs of shorter runs, --time 13m for runs "
            "as the job has them",
        ),
        # its stream has a length of its own
        (("streams.0.stop_after=20s",), 300, "--time 13m is enough for 10"),
    ],
)
def test_a_length_that_is_not_the_gates_is_refused_with_a_time_that_is_enough(
    job: Path, overrides: tuple[str, ...], limit_s: int, hint: str
) -> None:
    with pytest.raises(ConfigError, match="6 runs of a side are the least") as error:
        fitted(sides_of(job, *overrides), limit_s * NS_PER_S)
    assert hint in (error.value.hint or "")
    given = sides_of(job, *overrides)
    assert fitted(given, 13 * 60 * NS_PER_S) == (given, "")


def test_runs_are_not_made_too_short_to_miss_a_threshold(job: Path) -> None:
    """One of 11 s cannot miss it for 20 s: each gate would find it met."""
    for_s = {8: 11.0, 11: 11.0, 12: None, 20: None, 40: 11.0}
    for hold_s, length_s in for_s.items():
        text = f"thresholds=[p99 < 5ms for {hold_s}s]"
        given = sides_of(job, text)
        if length_s is not None:
            assert lengths_s(fitted(given, 300 * NS_PER_S)[0]) == {length_s}
            continue
        with pytest.raises(ConfigError, match="6 runs of a side are the least"):
            fitted(given, 300 * NS_PER_S)


def test_the_least_time_that_is_named_is_enough(job: Path) -> None:
    assert lengths_s(fitted(sides_of(job), 150 * NS_PER_S)[0]) == {4.0}


def test_a_length_is_given_however_it_is_written(job: Path) -> None:
    for text in ("run={duration: 30s, warm_up: 3s}", "run.duration = 30s"):
        with pytest.raises(ConfigError, match="6 runs of a side are the least"):
            fitted(sides_of(job, text), 300 * NS_PER_S)


def test_against_a_baseline_runs_have_its_length(job: Path) -> None:
    new = {"new": sides_of(job)["new"]}
    assert fitted(new, 300 * NS_PER_S) == (new, "")
    with pytest.raises(ConfigError, match="--time is 3m"):
        fitted(new, 180 * NS_PER_S)


def test_runs_that_a_count_ends_take_what_they_take(job: Path) -> None:
    given = sides_of(job, "streams.0.count=5")
    assert fitted(given, NS_PER_S) == (given, "")
