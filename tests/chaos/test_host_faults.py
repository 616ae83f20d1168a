# SPDX-License-Identifier: Apache-2.0
"""Hosts whose disk is full, or whose clocks differ or step."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldapslam.reports.summarise import summarise
from support.books import check_books, check_ended, open_books
from support.chaos_fleet import AGENTS, ChaosFleet
from support.counting_ldap import CountingLdap
from support.fleet import FINAL
from support.network import in_small_file_system, in_time_namespace, need, refuse
from support.stepped_clock import with_stepped_clock
from support.tallied_engine import tallied_engine

pytestmark = [pytest.mark.long, pytest.mark.chaos]

_STEP_MS = 1500
_AHEAD_S = 7200
_MIB = 1 << 20
#: What the runs below may need, and the agent's reserve.
_SPOOL_BYTES = 16 * _MIB


def test_agents_whose_monotonic_clocks_differ_start_together(
    chaos: ChaosFleet,
) -> None:
    """As on hosts that were booted at different times."""
    prefix = in_time_namespace(_AHEAD_S)
    need(*prefix, "true")
    clock = [sys.executable, "-c", "import time; print(time.monotonic())"]
    here_s = time.monotonic()
    there = subprocess.run([*prefix, *clock], capture_output=True, text=True)
    if float(there.stdout) - here_s < _AHEAD_S - 1:
        refuse("this kernel gives a time namespace to children only")
    chaos.prefixes["a"] = prefix
    chaos.begin(*AGENTS)
    run_id = chaos.submit_load(duration="3s")
    books = check_ended(chaos, run_id)
    with chaos.opened_store() as store:
        facts = store.agents(run_id)
    off_us = (facts["a"].clock_offset_us or 0) - (facts["b"].clock_offset_us or 0)
    bounds_us = sum(facts[agent].clock_offset_bound_us or 0 for agent in AGENTS)
    assert abs(off_us - _AHEAD_S * 1e6) <= bounds_us
    first_s = {agent: books.arrived_s[agent][0] for agent in AGENTS}
    assert abs(first_s["a"] - first_s["b"]) < 0.1


def test_a_wall_clock_that_steps_is_told_of_and_shifts_nothing(
    chaos: ChaosFleet, tmp_path: Path
) -> None:
    """The engine of agent a sees its wall clock step; over a Unix socket, because the
    kernel's receive stamps are of the true clock."""
    prefix, is_stepped = with_stepped_clock(tmp_path, _STEP_MS)
    chaos.directory = CountingLdap(chaos.folder, str(chaos.folder / "directory"))
    chaos.directory.start()
    chaos.start_coordinator()
    chaos.start_agent("a", [*prefix, *tallied_engine(chaos.tally("a"))])
    chaos.start_agent("b")
    chaos.wait_for_agents(*AGENTS)
    run_id = chaos.submit_load(duration="4s")
    chaos.wait_for_load(run_id)
    time.sleep(1.0)
    is_stepped.touch()
    books = check_ended(chaos, run_id)
    steps_ms = {
        agent: [one.clock_step_ns / 1e6 for one in books.stored[agent].values()]
        for agent in AGENTS
    }
    (seen,) = (step for step in steps_ms["a"] if abs(step) > 1)
    assert abs(seen - _STEP_MS) < 10
    assert all(abs(step) < 1 for step in steps_ms["b"])
    # intervals are where they were planned, for they are of the monotonic clock
    for index, end_ns in enumerate(books.run.plan.boundaries_ns):
        late_ns = books.stored["a"][index].end_ns - end_ns
        assert 0 <= late_ns < _STEP_MS * 1e6 / 2
    with chaos.opened_store() as store:
        summary = summarise(store, run_id)
    assert summary.verdict == "INVALID"
    (rule,) = (rule for rule in summary.rules if rule.name == "clock_step")
    assert not rule.passed


def test_an_agent_whose_spool_is_full_stops_and_says_so(chaos: ChaosFleet) -> None:
    spool = chaos.folder / "spool" / "a"
    spool.mkdir(parents=True)
    prefix = in_small_file_system(str(spool), _SPOOL_BYTES)
    need(*prefix, "true")
    chaos.prefixes["a"] = prefix
    chaos.begin(*AGENTS)
    run_id = chaos.submit_load(duration="60s")
    chaos.wait_for_load(run_id)
    inside = Path(f"/proc/{chaos.processes['a'].pid}/root{spool}")
    assert inside.stat().st_dev != chaos.folder.stat().st_dev
    filling_s = time.monotonic()

    def is_over() -> bool:
        # a report that is acknowledged leaves room for the next one
        _fill(inside / "of somebody else")
        return chaos.run(run_id).state in FINAL

    chaos.wait_until(is_over, "the run's end")
    status = chaos.run(run_id)
    # the others had to drain
    assert time.monotonic() - filling_s < 10.0
    assert status.state == "failed"
    assert "spool" in status.state_detail
    books = check_books(chaos, run_id, killed={"a": 0.0})
    assert books.stored["a"]
    assert books.is_complete("b")
    assert books.arrived_s["a"][-1] - filling_s < 3.0


def test_a_coordinator_whose_store_is_full_stops_the_run_and_keeps_what_it_has(
    chaos: ChaosFleet,
) -> None:
    folder = chaos.folder / "store"
    folder.mkdir()
    prefix = in_small_file_system(str(folder), 64 * _MIB)
    need(*prefix, "true")
    chaos.store = folder / "results.sqlite"
    chaos.prefixes["coordinator"] = prefix
    chaos.begin(*AGENTS)
    pid = chaos.processes["coordinator"].pid
    filler = Path(f"/proc/{pid}/root{folder}/of somebody else")
    chaos.has_own_files = True
    run_id = chaos.submit_load(duration="60s")
    chaos.wait_for_load(run_id)
    time.sleep(2.0)
    filled_s = time.monotonic()
    _fill(filler)
    status = chaos.wait_for(run_id, *FINAL, timeout_s=45.0)
    assert status.state == "failed", status.state_detail
    assert "full" in status.state_detail or "space" in status.state_detail
    # room again: what the agents keep is taken, and the end is stored
    filler.unlink()
    chaos.wait_for_agents(*AGENTS)
    chaos.wait_for_delivery(*AGENTS)
    chaos.wait_until(
        lambda: open_books(chaos, run_id).run.state == "failed", "its end in the store"
    )
    books = check_books(chaos, run_id)
    assert all(books.is_complete(agent) for agent in AGENTS)
    assert max(books.arrived_s[agent][-1] for agent in AGENTS) - filled_s < 30.0


def _fill(path: Path) -> None:
    """Take what is left of the file system."""
    with path.open("ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass
