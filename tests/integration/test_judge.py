# SPDX-License-Identifier: Apache-2.0
"""Verdicts by a process of its own, and what happens when that fails."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ldapslam.coordinator.runs.judge import Judgement, JudgeProcess
from ldapslam.reports.collect import timeline
from ldapslam.reports.digest import RESULT, altered_of, parts_in, result_part
from ldapslam.reports.judge import COMMAND
from ldapslam.reports.result import result_of
from ldapslam.reports.summarise import summarise
from ldapslam.results.collected import kept
from ldapslam.results.digest import stored_digest
from ldapslam.results.store import Store
from support.fleet import FleetOfProcesses, fake_engine, job_text
from support.intervals import add_interval
from support.store import RUN_ID, Scenario, fill, intervals, run_record


def stored(folder: Path, scenario: Scenario) -> str:
    path = folder / "results.sqlite"
    with Store.open(path) as store:
        fill(store, scenario)
    return str(path)


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def judged(
    url: str, run_id: str = RUN_ID, command: Sequence[str] = COMMAND, **more: float
) -> tuple[str | None, tuple[str, ...]]:
    async def ask() -> tuple[str | None, tuple[str, ...]]:
        found = await JudgeProcess(command, url, **more)(run_id)
        return found.verdict, found.reasons

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (program("import os; os.kill(os.getpid(), 9)"), "ended with -9"),
        (program("raise SystemExit(1)"), "ended with 1"),
        (program("print('nonsense')"), "Expecting value"),
        (program("print('[1]')"), "gave no answer"),
        (program('print(\'{"verdict": "GOOD"}\')'), "verdict 'GOOD'"),
        (program('print(\'{"why": "no such run"}\')'), "no such run"),
        (["/nonexistent/program"], "No such file"),
    ],
)
def test_a_judge_that_fails_leaves_the_run_without_a_verdict(
    command: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert judged("x", command=command) == (None, ())
    assert said in caplog.text
    assert RUN_ID in caplog.text


def test_what_has_not_been_measured_has_no_verdict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "results.sqlite"
    run = {"state": "cancelled", "t0_utc": None, "verdict": None}
    with Store.open(path) as store:
        store.create_run(run_record(Scenario(run=run)))
    assert judged(str(path)) == (None, ())
    assert caplog.records == []
    assert judged(str(path), "")[0] is None  # not the newest run
    assert "no run" in caplog.text


def test_a_judge_that_hangs_is_ended_at_its_limit_and_when_nobody_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pid = tmp_path / "pid"
    hanging = program(
        f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )

    async def ask_and_go() -> None:
        asking = asyncio.create_task(JudgeProcess(hanging, "x")(RUN_ID))
        while not (pid.exists() and pid.read_text()):
            await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask_and_go())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    began_s = time.monotonic()
    assert judged("x", command=hanging, limit_s=1.0)[0] is None
    assert time.monotonic() - began_s < 10
    assert "not done within 1 s" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_one_run_is_judged_at_a_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = program(
        "import sys, time\n"
        f"log = open({str(log)!r}, 'a', buffering=1)\n"
        "log.write('begin\\n'); time.sleep(0.2); log.write('end\\n')\n"
        'sys.stdout.write(\'{"verdict": "PASS"}\')'
    )

    async def ask() -> list[str | None]:
        judge = JudgeProcess(slow, "x")
        found = await asyncio.gather(*(judge(f"run-{number}") for number in range(3)))
        return [one.verdict for one in found]

    assert asyncio.run(ask()) == ["PASS"] * 3
    assert log.read_text().split() == ["begin", "end"] * 3


def test_a_judge_gives_way_and_has_no_store_in_its_arguments(tmp_path: Path) -> None:
    """Others see niceness and arguments of a process; a URL may hold a password."""
    assert "x" not in COMMAND
    seen = tmp_path / "seen"
    spying = program(
        "import os, sys\n"
        "import ldapslam.reports.judge as judge\n"
        "class Look:\n"
        "    @staticmethod\n"
        "    def open(store, read_only):\n"
        f"        open({str(seen)!r}, 'w').write(f'{{os.nice(0)}} {{store}}')\n"
        '        sys.stdout.write(\'{"verdict": "PASS"}\')\n'
        "        sys.stdout.flush()\n"
        "        os._exit(0)\n"
        "judge.Store = Look\n"
        "judge.answer(judge.judge)\n"
    )
    url = "postgresql://u:hunter2@db/x"
    assert judged(url, command=spying)[0] == "PASS"
    niceness, _, store = seen.read_text().partition(" ")
    assert int(niceness) >= os.nice(0) + 10
    assert store == url


def test_a_run_that_has_grown_is_judged_as_it_is_and_known_to_have_grown(
    tmp_path: Path,
) -> None:
    """A report came after the verdict: the second judgement is of all there is."""
    scenario = Scenario(thresholds=(), lost=frozenset({("load2", 5)}))
    url = stored(tmp_path, scenario)

    async def judge(*, looks_only: bool = False) -> Judgement:
        return await JudgeProcess(COMMAND, url)(RUN_ID, looks_only=looks_only)

    first = asyncio.run(judge())
    with Store.open(url, read_only=True) as store:
        summary = summarise(store, RUN_ID)
    assert (first.verdict, first.reasons) == ("INVALID", summary.reasons)
    assert first.altered == ()
    with Store.open(url) as store:
        assert first.document is not None
        digest = stored_digest(first.document, None)
        store.set_verdict(RUN_ID, first.verdict, digest)
        assert altered_of(store, store.run(RUN_ID)) == ()
        [late] = (
            one
            for one in intervals(replace(scenario, lost=frozenset()))
            if (one.agent, one.index) == ("load2", 5)
        )
        add_interval(store, RUN_ID, late)
        why, grown = asyncio.run(judge(looks_only=True)).altered
        assert why == "more of it came since, and it is not judged again yet"
        assert grown.startswith("interval_report has ")
        second = asyncio.run(judge())
        assert (second.verdict, second.altered) == ("PASS", ()), second.reasons
        assert second.document is not None
        store.set_verdict(RUN_ID, "PASS", stored_digest(second.document, None))
        assert summarise(store, RUN_ID).altered == ()


def test_a_run_that_is_collected_while_it_goes_on_is_judged_as_any(
    fleet: FleetOfProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.start_coordinator(judge=True, part_intervals=5)
    for name in "ab":
        fleet.start_agent(name, fake_engine())
    fleet.wait_for_agents("a", "b")
    run_id = fleet.submit(job_text(duration="5s", agents={"count": 2, "wait": "20s"}))
    fleet.wait_until(lambda: bool(fleet.run(run_id).verdict), "a verdict", 60)
    monkeypatch.setattr(timeline, "_PART_REPORTS", 1)
    monkeypatch.setattr(timeline, "_PART_INTERVALS", 5)
    with fleet.opened_store() as store:
        run = store.run(run_id)
        assert len(kept(store, run_id)) > 1
        assert altered_of(store, run) == ()
        by_parts, by_reports = (
            summarise(store, run_id, from_reports=one) for one in (False, True)
        )
    assert result_of(by_parts) == result_of(by_reports)
    assert run.digest is not None
    part = parts_in(run.digest["document"])[RESULT]
    assert result_part(result_of(by_reports), part.rows)[:2] == part[:2]
