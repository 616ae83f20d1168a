# SPDX-License-Identifier: Apache-2.0
"""The search for capacity, against servers that are drawn."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ldapslam.reports.typeset import count
from ldapslam.studies.capacity import Found, Probe, Range, next_probe
from ldapslam.studies.capacity_report import (
    CapacityAnswer,
    Tried,
    _lines,
    capacity_document,
)


def search(limits: Range, run, most: int = 40) -> tuple[Found, list[Probe]]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    made: list[Probe] = []
    while not isinstance(wanted := next_probe(limits, made), Found):
        made.append(replace(wanted, **run(wanted)))
        assert len(made) <= most
    return wanted, made


@pytest.mark.parametrize("seed", range(20))
def test_capacity_of_a_server_with_a_limit_takes_few_runs(seed: int) -> None:
    """Overloaded runs achieve what the server can, give or take 1 %."""
    rng = random.Random(seed)
    limit = rng.uniform(150, 90_000)

    def run(probe: Probe) -> dict[str, object]:
        holds = probe.load <= limit
        achieved = min(probe.load, limit) * (1 if holds else rng.uniform(0.99, 1.01))
        return {"verdict": "PASS" if holds else "FAIL", "achieved": achieved}

    found, made = search(Range(100, 100_000), run)
    assert found.capacity is not None
    assert limit / 1.031 - 1 <= found.capacity <= limit
    assert len(made) < 12


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100, 127, 128])
def test_clients_are_found_exactly_without_rates(limit: int) -> None:
    def run(probe: Probe) -> dict[str, object]:
        return {"verdict": "PASS" if probe.load <= limit else "FAIL"}

    found, made = search(Range(1, 128, precision=0.0), run)
    assert found.capacity == limit
    assert found.above == (limit + 1 if limit < 128 else None)
    assert len(made) <= 14


def test_not_even_the_lowest_load_holds() -> None:
    found, made = search(Range(10, 100), lambda _: {"verdict": "FAIL"})
    assert (found, len(made)) == (Found(None, 10, "FAIL"), 1)


def test_what_fails_its_confirmation_is_no_capacity() -> None:
    def run(probe: Probe) -> dict[str, object]:
        limit = 50 if probe.is_confirmation else 60
        return {"verdict": "PASS" if probe.load <= limit else "FAIL"}

    found, made = search(Range(1, 200), run)
    assert found.capacity is not None
    assert 47 <= found.capacity <= 50
    confirmed = [one for one in made if one.is_confirmation and one.verdict == "PASS"]
    assert found.capacity == confirmed[-1].load


def test_invalid_runs_are_tried_again_and_then_are_no_evidence_of_holding() -> None:
    seen: dict[float, int] = {}

    def run(probe: Probe) -> dict[str, object]:
        seen[probe.load] = seen.get(probe.load, 0) + 1
        if probe.load > 40:
            return {"verdict": "INVALID"}
        return {"verdict": "INVALID" if seen[probe.load] == 1 else "PASS"}

    found, _ = search(Range(5, 1000), run)
    assert found.capacity is not None
    assert 38 <= found.capacity <= 40
    assert found.above_verdict == "INVALID"
    assert max(seen.values()) <= 3


def test_noise_never_gives_a_capacity_without_its_confirmation() -> None:
    for seed in range(200):
        rng = random.Random(seed)

        def run(probe: Probe, rng: random.Random = rng) -> dict[str, object]:
            chance = rng.choices(("PASS", "FAIL", "INVALID"), (5, 3, 2))[0]
            return {"verdict": chance, "achieved": probe.load * rng.random()}

        found, made = search(Range(1, 1000), run, most=200)
        last = {one.load: one for one in made}
        if found.capacity is not None:
            assert last[found.capacity].is_confirmation
            assert last[found.capacity].verdict == "PASS"
            assert found.above is None or found.above > found.capacity


def _tried(
    load: float, verdict: str, p99_us: float, *, confirms: bool = False
) -> Tried:
    times = {"p50": 100.0, "p99": p99_us}
    figures = {"throughput_per_s": load, "error_share": 0.0, "response_time_us": times}
    reasons = [] if verdict == "PASS" else ["threshold failed: p99 < 20ms"]
    return Tried(
        Probe(load, is_confirmation=confirms, verdict=verdict),
        "001",
        {"streams": {"readers": {"search": figures}}, "reasons": reasons},
    )


def test_the_report_says_which_load_failed_and_shows_every_confirming_run() -> None:
    runs = (
        _tried(1e6, "PASS", 5_000),
        _tried(2e6, "INVALID", 9_000),
        _tried(2e6, "PASS", 8_000),
        _tried(2e6, "FAIL", 300_000, confirms=True),
        _tried(1e6, "PASS", 6_000, confirms=True),
    )
    found = Found(1e6, 2e6, "FAIL")
    answer = CapacityAnswer("search", "rate", ["p99 < 20ms"], found, runs)
    content = capacity_document(answer)
    assert content.reasons == ("rate=2000000: threshold failed: p99 < 20ms",)
    [glance] = content.glance
    assert [value for _, value in glance.statistics] == [count(10**6), count(2 * 10**6)]
    searched, confirming = _lines(answer, "response_time_p99_us", 1e-3)
    assert [point[:2] for point in searched.points] == [(1e6, 5.0), (2e6, 8.0)]
    assert [point[:2] for point in confirming.points] == [(1e6, 6.0), (2e6, 300.0)]
    assert not confirming.is_joined
