# SPDX-License-Identifier: Apache-2.0
"""Baselines: what may be one, what of its making is compared, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.reports.comparing.making import NOT_READ, READ
from ldapslam.reports.model import Summary
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.results.facts import Manifest
from ldapslam.studies.baseline import (
    Baseline,
    baseline_of,
    baseline_tables,
    left_out,
    load_baseline,
    refusal,
    save_baseline,
)
from ldapslam.studies.gate import (
    CANNOT_TELL,
    NEW,
    NO_REGRESSION,
    OLD,
    REGRESSION,
    Gate,
    Tolerances,
)
from ldapslam.studies.gate_report import GateAnswer, gate_document, gate_json
from support.judged import judged
from support.store import Scenario

JOB = """\
name: lookups
vars: {users: 10}
targets: {server: "ldap://one"}
run: {warm_up: 3s, duration: 5s}
streams:
  - name: readers
    target: server
    load: {clients: 2}
    operations: [{search: {base: "dc=example,dc=com",
                           filter: "(uid=user.[0-${users}])"}}]
"""
SAVED: dict[str, Any] = {
    "saved_utc": "2026-11-25T20:00:00+00:00",
    "saved_by": "carol@ci",
}


@pytest.fixture(scope="module")
def summary() -> Summary:
    return judged(Scenario())


def run(
    summary: Summary,
    number: int,
    verdict: str = "PASS",
    job: str = JOB,
    **manifest: Any,
) -> Summary:
    run = replace(
        summary.run,
        job_text=job,
        run_id=f"run-{number}",
        manifest=summary.run.manifest.updated(Manifest.parsed(manifest)),
    )
    return replace(summary, run=run, verdict=verdict)


def runs(summary: Summary, count: int = 5, **manifest: Any) -> list[Summary]:
    return [run(summary, number, **manifest) for number in range(count)]


def made(summaries: Sequence[Summary]) -> Baseline:
    return baseline_of(summaries, **SAVED)


def test_a_baseline_keeps_its_figures_and_its_making(
    summary: Summary, tmp_path: Path
) -> None:
    saved = made(runs(summary))
    path = tmp_path / "it.baseline.json"
    save_baseline(path, saved)
    assert load_baseline(path) == saved
    readings = saved.runs[0].readings
    operation = summary.operations[0]
    by_name = {
        one.short: one.value
        for one in readings.values()
        if one.title == operation.title
    }
    assert by_name["throughput"] == operation.throughput_per_s
    assert saved.means()[operation.title]["throughput"] == pytest.approx(
        operation.throughput_per_s
    )
    assert [*saved.differences(run(summary, 9))] == []


def test_runs_that_do_not_pass_are_no_part_of_it(summary: Summary) -> None:
    for verdict in ("INVALID", "FAIL"):
        other = replace(run(summary, 4, verdict), reasons=("too late",))
        why = f"run-4 is {verdict}: too late"
        with pytest.raises(ConfigError, match=f"got 4; 1 {verdict}: too late"):
            made([*runs(summary, 4), other])
        others = [*runs(summary, 4), other, run(summary, 5)]
        assert left_out(others) == [why]
        assert len(made(others).runs) == 5


def test_of_a_gate_runs_that_were_too_short_are_taken(summary: Summary) -> None:
    open_one = replace(summary.thresholds[0], outcome=Outcome.UNCERTAIN)
    summary = replace(summary, thresholds=(open_one,))
    short = [run(summary, number, "INVALID") for number in range(6)]
    of_gates = [one.run.run_id for one in short[:5]]
    saved = baseline_of(short, **SAVED, of_gates=of_gates)
    assert [one.run_id for one in saved.runs] == of_gates
    assert left_out(short, of_gates) == ["run-5 is INVALID: it was not judged"]
    # a run that FAILs counts in a gate, and is not good
    failed = [*short[:4], run(summary, 4, "FAIL")]
    with pytest.raises(ConfigError, match="got 4; 1 FAIL"):
        baseline_of(failed, **SAVED, of_gates=of_gates)


def test_runs_that_were_made_in_other_ways_are_no_baseline(summary: Summary) -> None:
    other = run(summary, 4, overrides=["run.duration=2s"])
    with pytest.raises(ConfigError, match=r"run · duration is .*'2s' in run-4"):
        made([*runs(summary, 4), other])


def observed(version: str, threads: int, uri: str = "ldap://one") -> dict[str, Any]:
    facts = {"version": version, "settings": {"olcThreads": threads}}
    return {"servers": {uri: {}}, "observations": {uri: {"facts": facts}}}


def of_lab(**made_of: str) -> dict[str, Any]:
    """Return the manifest of a lab, which is known without a monitor."""
    return {"servers": {"ldap://one": {}}, "lab": made_of}


def overridden(*changes: str) -> dict[str, Any]:
    return {"overrides": list(changes)}


BIND = 'bind={dn: "cn=%s", password: {file: %s}}'
LAB = of_lab(version="2.6.7", entries="2000", **{"settings · threads": "2"})
EXTENDS = "extends: base.yaml\nrun: {duration: 5s}\n"


@pytest.mark.parametrize(
    ("job", "then", "now", "differences"),
    [
        # another version is what a gate is for, another setting is not
        (JOB, observed("2.6.7", 16), observed("2.6.8", 16), []),
        (
            JOB,
            observed("2.6.7", 16),
            observed("2.6.8", 4),
            [("server 1 · settings · olcThreads", "16", "4")],
        ),
        (JOB, LAB, {**LAB, "lab": {**LAB["lab"], "version": "2.6.8"}}, []),
        (
            JOB,
            LAB,
            of_lab(version="2.6.7", entries="1000"),
            [
                ("lab · entries", "2000", "1000"),
                ("lab · settings · threads", "2", "not there"),
            ],
        ),
        # where a server is is none
        (
            JOB,
            overridden("targets.server=ldap://127.0.0.1:1"),
            overridden("targets.server=ldap://127.0.0.1:2"),
            [],
        ),
        (
            JOB,
            {},
            overridden("run.duration=9s"),
            [("job file · run · duration", "5s", "9s")],
        ),
        # nor where a password is, but who binds
        (JOB, overridden(BIND % ("a", "/a")), overridden(BIND % ("a", "/b")), []),
        (
            JOB,
            overridden(BIND % ("a", "/a")),
            overridden(BIND % ("b", "/a")),
            [("job file · bind · dn", "cn=a", "cn=b")],
        ),
        # of a job that extends another file the changes are compared
        (
            EXTENDS,
            overridden(BIND % ("a", "/a"), "targets.server=ldap://two"),
            overridden(BIND % ("a", "/b")),
            [],
        ),
        (
            EXTENDS,
            overridden(BIND % ("a", "/a")),
            overridden("run.duration=9s"),
            [("changes of the job", 'bind={"dn": "cn=a"}', "run.duration=9s")],
        ),
    ],
)
def test_a_baseline_differs_in_what_is_not_under_test(
    summary: Summary,
    job: str,
    then: dict[str, Any],
    now: dict[str, Any],
    differences: list[tuple[str, str, str]],
) -> None:
    saved = made(runs(summary, job=job, **then))
    assert [*saved.differences(run(summary, 9, job=job, **now))] == differences


def test_of_a_server_that_is_no_lab_nothing_is_known(summary: Summary) -> None:
    saved = made(runs(summary, **LAB))
    assert saved.unknown(run(summary, 9, **LAB)) == {}
    none = run(summary, 9, servers={"ldap://one": {}})
    assert ("lab · entries", "2000", "not there") in [*saved.differences(none)]


def test_what_is_compared_is_the_job_not_how_it_was_changed(summary: Summary) -> None:
    changes = ["run.warm_up=1000ms", 'vars.users="7"']
    saved = made(runs(summary, overrides=changes))
    edited = JOB.replace("warm_up: 3s", "warm_up: 1s").replace("users: 10", "users: 7")
    inline = edited.replace("vars: {users: 7}\n", "").replace("${users}", "7")
    for job in (edited, inline):
        assert [*saved.differences(run(summary, 9, job=job))] == []
    found = [*saved.differences(run(summary, 9))]
    assert [one for one in found if "filter" not in one[0]] == [
        ("job file · vars · users", "7", "10"),
        ("job file · run · warm up", "1s", "3s"),
    ]
    hint = refusal(found).hint or ""
    assert hint.startswith("give --var users=7 --set run.warm_up=1s, as then; or save")


def test_settings_that_nobody_read_are_not_known_and_not_equal(
    summary: Summary,
) -> None:
    facts = {"version": "2.6.7", "unreadable": ["settings"]}
    uri, area = "ldap://one", "server 1 · settings"
    ways = [
        observed("2.6.7", 16),
        {"servers": {uri: {}}, "observations": {uri: {"facts": facts}}},
    ]
    seen, unseen = (made(runs(summary, **way)) for way in ways)
    now_seen, now_unseen = (run(summary, 9, **way) for way in ways)
    assert [*seen.differences(now_unseen)] == [(area, READ, NOT_READ)]
    assert [*unseen.differences(now_seen)] == [(area, NOT_READ, READ)]
    assert [*unseen.differences(now_unseen)] == []
    assert unseen.unknown(now_unseen) == {area: NOT_READ}
    assert seen.unknown(now_seen) == {}


def test_a_baseline_is_shown_by_its_figures_and_its_making(summary: Summary) -> None:
    saved = made(runs(summary))
    figures, facts = baseline_tables(saved)
    assert len(figures.rows) == sum(map(len, saved.means().values()))
    assert facts.rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file"),
        ("", "is no baseline"),
        ("{}", "is no baseline: job: Field required"),
        ('{"job": 1}', "is no baseline"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_baseline(path)
    assert caught.value.hint


def test_one_of_another_version_is_refused(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "later.json"
    save_baseline(path, made(runs(summary)).model_copy(update={"schema_name": "x/2"}))
    with pytest.raises(ConfigError, match="'x/2', this is 'ldapslam-baseline/1'"):
        load_baseline(path)


def against(
    summary: Summary,
    factor: float,
    spread: float,
    then: Sequence[float | None] = (),
    now: float | None = None,
) -> tuple[Gate, Baseline]:
    """A gate whose new runs have this share of the baseline's throughput, on a host
    whose other processes used so much of its CPU time."""
    baseline = made(runs(summary))
    varied = [
        one.model_copy(update={"figures": _scaled(one.figures, 1 + spread * place)})
        for place, one in zip((-2, -1, 0, 1, 2), baseline.runs, strict=True)
    ]
    readings = [one.readings for one in varied]
    gate = Gate(("throughput",), Tolerances(), readings, other_cpu_shares=then)
    for place in (-2, -1, 0, 1, 2, -1, 1, 0):
        share = factor * (1 + spread * place)
        figures = _scaled(baseline.runs[0].figures, share)
        new = baseline.runs[0].model_copy(update={"figures": figures}).readings
        gate.add(new, other_cpu_share=now)
        if gate.size == 5:
            gate.plan_for(8)
    gate.end()
    return gate, baseline


def _scaled(figures: Any, share: float) -> dict[str, dict[str, float]]:
    return {
        title: {"throughput": values["throughput"] * share}
        for title, values in figures.items()
    }


@pytest.mark.parametrize(
    ("factor", "spread", "answer"),
    [
        (1.0, 0.01, NO_REGRESSION),
        (1.2, 0.01, NO_REGRESSION),
        (0.8, 0.01, REGRESSION),
        (0.95, 0.05, CANNOT_TELL),
    ],
)
def test_new_runs_are_judged_against_the_baseline(
    summary: Summary, factor: float, spread: float, answer: str
) -> None:
    gate, _ = against(summary, factor, spread)
    assert gate.answer().answer == answer


@pytest.mark.parametrize(
    ("factor", "now", "answer"),
    [
        (0.8, 0.5, CANNOT_TELL),  # a busier host is slower, too
        (1.0, 0.5, NO_REGRESSION),  # and no reason to be as fast
        (1.0, 0.0, CANNOT_TELL),
        (0.8, 0.0, REGRESSION),
        (0.8, 0.24, REGRESSION),
        (1.0, 0.06, NO_REGRESSION),
        (0.8, None, REGRESSION),
    ],
)
def test_what_may_come_from_a_busier_or_quieter_host_cannot_be_told(
    summary: Summary, factor: float, now: float | None, answer: str
) -> None:
    then = (0.1, 0.2, 0.15, 0.15, 0.15)
    gate, baseline = against(summary, factor, 0.01, then, now)
    found = gate.answer()
    assert found.answer == answer
    assert (found.host is not None) is (answer == CANNOT_TELL)
    told = GateAnswer("lookups", {"new": ""}, found, (), "", 1, 3.0, baseline=baseline)
    shown = "other processes used 50% of its CPU time, 10% to 20% then"
    assert any(shown in one for one in told.reasons) is ((factor, now) == (0.8, 0.5))
    # one run that nobody knows this of is enough
    gate, _ = against(summary, factor, 0.01, (*then[1:], None), now)
    assert gate.answer().host is None


def test_runs_that_fail_may_come_from_a_busier_host(summary: Summary) -> None:
    gate, _ = against(summary, 1.0, 0.01, (0.1,) * 5, 0.5)
    for _ in range(8):
        gate.note(NEW, "FAIL", is_sound=True)
    gate.plan_for(9)
    gate.add(made(runs(summary)).runs[0].readings, other_cpu_share=0.5)
    gate.end()
    assert (gate.answer().of_failed, gate.answer().answer) == (CANNOT_TELL, CANNOT_TELL)
    assert gate.answer().host is not None


def test_runs_that_a_baseline_leaves_out_for_a_fail_count_as_such(
    summary: Summary,
) -> None:
    """Half of them did before: six of six may be chance then."""
    others = [run(summary, number, "FAIL") for number in range(10, 20)]
    invalid = run(summary, 20, "INVALID")
    saved = made([*runs(summary, 10), *others, invalid])
    assert (len(saved.runs), saved.failed) == (10, 10)
    readings = [one.readings for one in saved.runs]
    found = []
    for failed in (0, saved.failed):
        gate = Gate(("throughput",), Tolerances(), readings, failed=failed)
        for number in range(6):
            gate.note(NEW, "FAIL", is_sound=True)
            gate.add(readings[number])
            if gate.size == 5:
                gate.plan_for(10)
        found.append(gate.answer().of_failed)
    assert found == [REGRESSION, CANNOT_TELL]
    told = GateAnswer("j", {"new": ""}, gate.answer(), (), "", 1, 3.0, baseline=saved)
    assert "10 of 20 runs of the old side FAIL" in told.reasons


def test_a_baseline_keeps_what_else_the_host_did(summary: Summary) -> None:
    given = runs(summary)
    shares = {given[0].run.run_id: 0.25}
    saved = baseline_of(given, saved_utc="", saved_by="", other_cpu_shares=shares)
    assert [one.other_cpu_share for one in saved.runs] == [0.25, *[None] * 4]


def test_the_report_says_that_a_baseline_is_weaker_and_what_differs(
    summary: Summary,
) -> None:
    gate, baseline = against(summary, 1.0, 0.01)
    answer = GateAnswer(
        job="lookups",
        sides={"new": ""},
        answer=gate.answer(),
        runs=(),
        ended="the answer is clear",
        seed=1,
        each_s=3.0,
        baseline=baseline,
        differences=[("server 1 · settings · olcThreads", "16", "4")],
        unknown={"server 2 · settings": NOT_READ},
    )
    content = gate_document(answer)
    assert "8 runs against the 5 of the baseline of 2026-11-25" in content.statement
    assert len(content.cautions) == 4
    assert "The runs of the baseline are of 20" in content.cautions[1]
    assert "same server 2 · settings (could not be read)" in content.cautions[-1]
    assert OLD not in answer.sides
    names = [one.name for one in content.sections]
    assert names == ["changes", "differences", "runs"]
    found = gate_json(answer)
    runs = [
        one.model_copy(update={"t0_utc": f"2026-11-0{1 + number % 3}T08:00:00+00:00"})
        for number, one in enumerate(baseline.runs)
    ]
    of_days = baseline.model_copy(update={"runs": tuple(runs)})
    assert len(gate_document(replace(answer, baseline=of_days)).cautions) == 3
    assert found["differences"] == [
        {"fact": "server 1 · settings · olcThreads", "was": "16", "is": "4"}
    ]
