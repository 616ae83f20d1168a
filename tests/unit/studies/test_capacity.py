# SPDX-License-Identifier: Apache-2.0
"""The search for capacity, against servers that are drawn."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.reports.document import Cell, ChartPlace, Table
from ldapslam.reports.figures import METRICS, THROUGHPUT, Figure, figures_json
from ldapslam.reports.typeset import count
from ldapslam.studies.capacity import (
    Found,
    Probe,
    Range,
    achieved_load,
    is_uncertain,
    next_probe,
    rates_of,
    short_runs,
)
from ldapslam.studies.capacity_report import (
    CapacityAnswer,
    Tried,
    _lines,
    _panels,
    capacity_document,
    capacity_json,
    write_capacity,
)
from support.figures import result_figures


def search(limits: Range, run, most: int = 40) -> tuple[Found, list[Probe]]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    made: list[Probe] = []
    while not isinstance(wanted := next_probe(limits, made), Found):
        made.append(replace(wanted, **run(wanted)))
        assert len(made) <= most
    return wanted, made


def is_near(found: Found, limit: float) -> bool:
    return limit / 1.031 - 1 <= (found.capacity or 0) <= limit


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
    assert is_near(found, limit)
    assert len(made) < 12


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100, 127, 128])
def test_clients_are_found_exactly_without_rates(limit: int) -> None:
    def run(probe: Probe) -> dict[str, object]:
        return {"verdict": "PASS" if probe.load <= limit else "FAIL"}

    found, made = search(Range(1, 128, precision=0.0), run)
    assert found.capacity == limit
    assert found.above == (limit + 1 if limit < 128 else None)
    assert len(made) <= 14


@pytest.mark.parametrize("limit", [5, 300, 7000])
def test_a_load_that_is_not_certain_is_run_longer(limit: int) -> None:
    """Once, and of a confirmation too: otherwise the same would come again."""

    def run(probe: Probe) -> dict[str, object]:
        if not probe.is_longer:
            return {"verdict": "INVALID", "is_uncertain": True}
        return {"verdict": "PASS" if probe.load <= limit else "FAIL"}

    found, made = search(Range(1, 10_000), run)
    assert is_near(found, limit)
    assert found.above_verdict == "FAIL"
    assert [one.is_longer for one in made[-2:]] == [False, True]


def test_a_run_is_uncertain_where_nothing_else_is_wrong_with_it() -> None:
    short, met = {"outcome": "uncertain"}, {"outcome": "met"}
    late, on_time = {"passed": False}, {"passed": True}

    def found(verdict: str, rule: object, threshold: object) -> bool:
        return is_uncertain(
            {"verdict": verdict, "rules": [on_time, rule], "thresholds": [threshold]}
        )

    assert found("INVALID", on_time, short)
    assert not found("INVALID", late, short)
    assert not found("INVALID", late, met)
    assert not found("FAIL", on_time, short)
    assert not is_uncertain({"verdict": "INVALID"})


def test_not_even_the_lowest_load_holds() -> None:
    found, made = search(Range(10, 100), lambda _: {"verdict": "FAIL"})
    assert (found, len(made)) == (Found(None, 10, "FAIL"), 2)


@pytest.mark.parametrize("with_rates", [True, False])
def test_one_chance_fail_does_not_cap_the_search(with_rates: bool) -> None:
    """Of a search that is otherwise clean, each run of the search in turn."""
    limit = 7000

    def search_with(chance: int) -> list[Probe]:
        count = iter(range(100))

        def run(probe: Probe) -> dict[str, object]:
            chances = not probe.is_confirmation and next(count) == chance
            holds = probe.load <= limit and not chances
            achieved = min(probe.load, limit) if with_rates else None
            return {"verdict": "PASS" if holds else "FAIL", "achieved": achieved}

        found, made = search(Range(100, 100_000), run)
        assert is_near(found, limit)
        return made

    clean = search_with(-1)
    for chance, probe in enumerate(clean):
        if not probe.is_confirmation:
            search_with(chance)


def test_few_searches_are_capped_where_one_run_in_twenty_fails_by_chance() -> None:
    """Without a second run of the edge 76 % find the limit, by 9.1 runs."""
    near, runs = 0, 0
    for seed in range(300):
        rng = random.Random(seed)
        limit = rng.uniform(150, 90_000)

        def run(
            probe: Probe, rng: random.Random = rng, limit: float = limit
        ) -> dict[str, object]:
            holds = probe.load <= limit and rng.random() > 0.05
            achieved = min(probe.load, limit) * rng.uniform(0.99, 1)
            return {"verdict": "PASS" if holds else "FAIL", "achieved": achieved}

        found, made = search(Range(100, 100_000), run, most=60)
        runs += len(made)
        near += is_near(found, limit)
    assert near / 300 > 0.93
    assert runs / 300 < 12


def test_search_and_confirmation_have_tries_of_their_own() -> None:
    """One INVALID run of each is no reason for a lower capacity."""
    seen: set[tuple[float, bool]] = set()

    def run(probe: Probe) -> dict[str, object]:
        is_first = (key := (probe.load, probe.is_confirmation)) not in seen
        seen.add(key)
        if probe.load > 40:
            return {"verdict": "FAIL"}
        return {"verdict": "INVALID" if is_first else "PASS"}

    found, made = search(Range(5, 1000), run)
    assert found.capacity == max(one.load for one in made if one.verdict == "PASS")
    assert found.above_verdict == "FAIL"


def test_what_the_generator_achieved_settles_nothing_of_the_directory() -> None:
    """Of 400 an INVALID run achieved 150, as the one FAIL of 152 would confirm."""
    made = [
        Probe(100, verdict="PASS"),
        *[Probe(400, verdict="INVALID", achieved=150.0)] * 2,
        Probe(148, verdict="PASS"),
        Probe(152, verdict="FAIL", achieved=152.0),
    ]
    limits = Range(100, 1000)
    assert next_probe(limits, made) == Probe(152)
    # nor is it where the next run goes
    assert next_probe(limits, made[:3]) == Probe(200)
    overloaded = [replace(one, verdict="FAIL") for one in made[1:3]]
    made[1:3] = overloaded
    assert next_probe(limits, made) == Probe(148, is_confirmation=True)


ONE = "compare: {dn: o=x, attribute: ou, value: y}"
TWO = "sequence: [{search: {base: o=x}}, {name: next, search: {base: o=y}}]"


def job(load: str, operation: str = ONE) -> Job:
    text = f"""
name: loads
targets: {{directory: "ldap://one"}}
run: {{duration: 10s, ramp_up: 2s}}
streams:
  - name: readers
    target: directory
    operations: [{{{operation}}}]
    load: {{{load}}}
  - name: others
    target: directory
    operations: [{{{ONE}}}]
    load: {{rate: 50/s}}
"""
    return load_job_text(text, file="job.yaml", base=None)


def test_what_was_achieved_is_of_the_rates_that_the_load_sets() -> None:
    limits = Range(100, 1000)
    rates = rates_of(limits, job("rate: 100/s"), job("rate: 1000/s"))
    assert rates == {"readers": pytest.approx(1)}
    done = {"readers.compare": 400.0, "others.compare": 50.0}
    result = {
        "figures": {
            name: figure
            for operation, per_s in done.items()
            for name, figure in result_figures(operation, {"throughput": per_s}).items()
        }
    }
    assert achieved_load(rates, result) == pytest.approx(400)
    assert achieved_load(rates, {}) is None


@pytest.mark.parametrize(
    ("lowest", "highest", "operation"),
    [
        ("clients: 100", "clients: 1000", ONE),
        ("rate: 150/s", "rate: 1050/s", ONE),
        ("rate: 100/s", "rate: 1000/s", TWO),
    ],
)
def test_what_others_achieve_is_no_load(
    lowest: str, highest: str, operation: str
) -> None:
    """Of clients, of a rate beside the load, of sequences."""
    rates = rates_of(Range(100, 1000), job(lowest, operation), job(highest, operation))
    assert not rates
    result = {"figures": result_figures("readers.compare", {"throughput": 7.0})}
    assert achieved_load(rates, result) is None


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
    load: float,
    verdict: str,
    p99_us: float,
    *,
    confirms: bool = False,
    p95_us: float | None = None,
    **ci95: tuple[float, float],
) -> Tried:
    values = {"throughput": load, "errors": 0.0, "p50": 100.0, "p99": p99_us}
    figures = result_figures("readers.search", {**values, "p95": p95_us}, ci95)
    reasons = [] if verdict == "PASS" else ["threshold failed: p99 < 20ms"]
    return Tried(
        Probe(load, is_confirmation=confirms, verdict=verdict),
        "001",
        {"figures": figures, "reasons": reasons},
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
    glance, confirmed = content.glance
    assert [value.text for _, value in glance.statistics] == [
        count(10**6),
        count(2 * 10**6),
    ]
    assert confirmed.title == "readers.search at the capacity"
    assert ("throughput", Cell(f"{count(10**6)}/s")) in confirmed.statistics
    assert ("p99", Cell("6 ms")) in confirmed.statistics
    searched, confirming = _lines(answer, METRICS["p99"])
    assert [point[:2] for point in searched.points] == [(1e6, 5.0), (2e6, 8.0)]
    assert [point[:2] for point in confirming.points] == [(1e6, 6.0), (2e6, 300.0)]
    assert not confirming.is_joined
    assert (searched.crossed, confirming.crossed) == ([False, False], [False, True])


def _with_figures(run: Tried, figures: list[Figure]) -> Tried:
    known = run.result["figures"] | figures_json(figures)
    return replace(run, result={**run.result, "figures": known})


def test_the_first_page_has_the_interval_and_what_was_busy() -> None:
    confirmed = _tried(16, "PASS", 6_000, confirms=True, p99=(5_500.0, 6_600.0))
    clients = [
        Figure(name, "*", "cpu", None, share, kind="agent")
        for name, share in (("one", 0.25), ("two", None))
    ]
    host = Figure("ldap://a", "*", "cpu", None, 0.95, kind="host")
    servers = {"ldap://a": {"vendor_name": "V", "vendor_version": "2"}}
    more = {
        "measured_s": 90.0,
        "manifest": {"servers": servers, "finished_utc": "2026-03-01T12:30:00Z"},
        "notes": ["the CPUs of the host of ldap://a were 95% busy"],
    }
    confirmed = _with_figures(confirmed, [*clients, host])
    confirmed = replace(confirmed, result={**confirmed.result, **more})
    failed = _with_figures(_tried(17, "FAIL", 25_000), clients)
    found = Found(16, 17, "FAIL")
    objectives = ["search.p99 < 20ms", "errors < 1%", "host(db).cpu < 80%"]
    answer = CapacityAnswer("search", "clients", objectives, found, [failed, confirmed])
    content = capacity_document(answer)
    facts = dict(content.facts)
    assert facts["Capacity"] == "16 held for 90 s; 17 did not hold"
    assert facts["p99 there"] == "readers.search 5.5 to 6.6 ms (95% interval)"
    assert facts["Limited by"] == (
        "threshold failed: p99 < 20ms; CPU busy there: clients 25%"
    )
    assert facts["System"] == "V 2: ldap://a"
    assert facts["Runs"] == "2, 90 s measured, the last ended 2026-03-01 12:30 UTC"
    assert content.cautions == ("The CPUs of the host of ldap://a were 95% busy.",)
    (section,) = content.sections
    place, runs = section.blocks
    assert isinstance(place, ChartPlace)
    assert isinstance(runs, Table)
    titles = [one.title for one in runs.columns]
    cpu = [titles.index(f"{whose} CPU") for whose in ("client", "server")]
    assert [[row[at].text for at in cpu] for row in runs.rows] == [
        ["25", "95"],
        ["25", "–"],
    ]
    figures = [titles.index(one) for one in ("throughput", "p50", "p99", "errors")]
    assert [[row[at].text for at in figures] for row in runs.rows] == [
        ["16", "0.1", "6", "0"],
        ["17", "0.1", "25", "0"],
    ]
    assert [row[titles.index("Why not")].text for row in runs.rows] == [
        "",
        "threshold failed: p99 < 20ms",
    ]
    assert "Dashed red: the objective" in place.description
    (line, crossed) = _lines(answer, METRICS["p99"])[::-1]
    assert line.points[0] == pytest.approx((16, 6.0, 5.5, 6.6))
    assert crossed.crossed == [True]


def test_the_limit_of_the_generator_is_no_capacity_of_the_directory(
    tmp_path: Path,
) -> None:
    reasons = ["clients waited for the generator: 55%", "and more"]
    invalid = Tried(Probe(23, verdict="INVALID"), "002", {"reasons": reasons})
    runs = (_tried(16, "PASS", 900, confirms=True), invalid, invalid)
    found = Found(16, 23, "INVALID")
    answer = CapacityAnswer("search", "clients", ["p99 < 2ms"], found, runs)
    content = capacity_document(answer)
    assert content.verdict == "INVALID"
    assert content.statement.startswith("Holds at least up to clients=16, confirmed")
    assert content.statement.endswith(f"could not be certified: {reasons[0]}.")
    assert content.reasons == ("clients=23: and more",)
    assert len(list(content.charts())) == 1
    write_capacity(answer, tmp_path)
    for name in ("capacity.txt", "capacity.html"):
        text = (tmp_path / name).read_text()
        assert "not certified" in text, name
        assert "does not hold" not in text, name
    written = json.loads((tmp_path / "capacity.json").read_text())
    assert (written["verdict"], written["is_lower_bound"]) == ("INVALID", True)
    assert (written["above_verdict"], written["above_reasons"]) == ("INVALID", reasons)


def test_a_search_without_a_valid_run_draws_no_chart() -> None:
    runs = (_tried(1, "INVALID", 900), _tried(1, "INVALID", 900))
    answer = CapacityAnswer("search", "clients", [], Found(None, 1, "INVALID"), runs)
    assert not list(capacity_document(answer).charts())


@pytest.mark.parametrize(
    ("found", "verdict", "is_lower_bound"),
    [
        (Found(16, 17, "FAIL"), "PASS", False),
        (Found(16, 17, "INVALID"), "INVALID", True),
        (Found(16, None), "PASS", True),
        (Found(None, 1, "FAIL"), "FAIL", False),
        (Found(None, 1, "INVALID"), "INVALID", False),
    ],
)
def test_a_search_is_pass_where_its_limit_is_known(
    found: Found, verdict: str, is_lower_bound: bool
) -> None:
    assert (found.verdict, found.is_lower_bound) == (verdict, is_lower_bound)


@pytest.mark.parametrize(
    ("threshold", "duration", "more", "said"),
    [
        # one client: 3 s / 10 ms
        ("p99 < 10ms", "3s", "", "about 300 of readers.search come"),
        ("p99 < 10ms", "3s", "", "--set run.duration=11s"),
        ("p99 < 10ms", "30s", "stop_after: 6s", "about 600 of readers.search come"),
        ("p99 < 10ms", "30s", "", ""),
        ("p99 < 10ms", "10s", "", ""),
        ("p99 < 3ms", "3s", "", ""),
        ("p99 > 10ms", "3s", "", ""),
        ("mean < 10ms", "3s", "", ""),
    ],
)
def test_runs_of_a_closed_loop_that_may_be_too_short_for_a_percentile_are_told(
    threshold: str, duration: str, more: str, said: str
) -> None:
    doubts = list(short_runs(of_one_client(threshold, duration, more)))
    assert len(doubts) == bool(said)
    assert said in "".join(doubts)


def of_one_client(threshold: str, duration: str, more: str = "") -> Job:
    return load_job_text(
        f"""\
name: short
targets: {{server: "ldap://one"}}
run: {{duration: {duration}}}
thresholds: ["{threshold}"]
streams:
  - name: readers
    target: server
    load: {{clients: 1}}
    operations: [{{search: {{base: "dc=example,dc=com"}}}}]
    {more}
""",
        file="short.yaml",
        base=Path(),
    )


def test_the_report_shows_the_statistics_that_objectives_name() -> None:
    ends = (19_000.0, 22_000.0)
    held = _tried(16, "PASS", 30_000, confirms=True, p95_us=20_360.0, p95=ends)
    answer = CapacityAnswer(
        "search", "clients", ["search.p95 < 25ms"], Found(16, None), (held,)
    )
    content = capacity_document(answer)
    first, card = content.glance
    assert ("highest load tried", Cell("16")) in first.statistics
    assert [name for name, _ in card.statistics][1:4] == ["p50", "p95", "p99"]
    [runs] = [one for one in content.sections[0].blocks if isinstance(one, Table)]
    assert "p95" in [one.title for one in runs.columns]
    p95 = METRICS["p95"]
    assert (_panels(answer), answer.limits) == ([THROUGHPUT, p95], {p95: [25.0]})
    assert _lines(answer, THROUGHPUT)[0].points == [(16, 16, None, None)]
    assert _lines(answer, p95)[0].points == [(16, 20.36, 19.0, 22.0)]
    [run] = capacity_json(answer)["runs"]
    assert run["figures"]["readers.search.response_time.p95"] == 20_360.0


def test_a_load_that_held_until_its_confirmation_is_told() -> None:
    runs = (_tried(20, "PASS", 900), _tried(20, "FAIL", 900, confirms=True))
    answer = CapacityAnswer("search", "rate", [], Found(None, 20, "FAIL"), runs)
    assert answer.statement == (
        "No capacity: rate=20 held once, its confirmation failed."
    )


def test_a_run_that_a_coordinator_keeps_has_no_link_to_a_report() -> None:
    run = Tried(Probe(20, verdict="FAIL"), "001-1-1", {"run_id": "r7"}, False)
    answer = CapacityAnswer("search", "rate", [], Found(None, 20, "FAIL"), [run])
    runs = capacity_document(answer).sections[0].blocks[-1]
    assert isinstance(runs, Table)
    assert runs.rows[0][-1] == Cell("001-1-1: ldapslam report r7")


def test_a_rate_has_its_unit_and_no_path() -> None:
    load = "streams.readers.load.rate"
    runs = (_tried(1000, "PASS", 900), _tried(2000, "FAIL", 900))
    answer = CapacityAnswer("search", load, [], Found(1000, 2000, "FAIL"), runs, "/s")
    assert answer.statement.startswith("Holds up to rate=1000/s, confirmed")
    document = capacity_document(answer)
    assert document.glance[0].title == "rate"
    assert ("capacity", Cell(f"{count(1000)}/s")) in document.glance[0].statistics
    assert ("Load", load) in document.facts
