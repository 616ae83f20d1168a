# SPDX-License-Identifier: Apache-2.0
"""The operator's command for ends of runs: when it is started, what it reads, how it is
stopped."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.observer import JudgedRun
from ldapslam.coordinator.outputs import run_end_command as module
from ldapslam.coordinator.outputs.run_end_command import (
    RunEndCommand,
    is_news,
    run_command,
    title_of,
)
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import RunRecord, utc_text
from support.bounds import exceeds
from support.store import RUN_ID, Scenario, run_record

FIGURES = {
    "readers.search.throughput": 500.0,
    "readers.search.response_time.p99": None,
}


@pytest.fixture
def writer() -> Iterator[StoreWriter]:
    writer = StoreWriter("sqlite://")
    yield writer
    asyncio.run(writer.close())


def ended(**fields: object) -> RunRecord:
    now_utc = utc_text(datetime.now(UTC))
    record = replace(run_record(Scenario()), finished_utc=now_utc, verdict="FAIL")
    return replace(record, **fields)  # type: ignore[arg-type]


def shell(script: str) -> tuple[str, ...]:
    return "sh", "-c", script


def events(
    writer: StoreWriter,
    command: tuple[str, ...],
    work: Callable[[RunEndCommand], Awaitable[None]],
    limit_s: float = 30.0,
) -> list[tuple[str, str]]:
    """The run's events after this work between start and stop."""

    async def go() -> list[tuple[str, str]]:
        extension = RunEndCommand(command, limit_s=limit_s)
        try:
            await extension.start(Coordinator(writer), None)
            await work(extension)
        finally:
            await extension.stop()
        stored = await writer.call(writer.store.events, RUN_ID)
        return [(event.kind, event.text) for event in stored]

    return asyncio.run(go())


def judged(
    writer: StoreWriter, *records: RunRecord, ended_s: float | None = None
) -> Callable[[RunEndCommand], Awaitable[None]]:
    async def work(extension: RunEndCommand) -> None:
        await writer.call(writer.store.create_run, records[0])
        for record in records:
            extension.run_judged(JudgedRun(record, ["p99 was 8 ms"], ended_s, FIGURES))
            await all_done(extension)

    return work


async def all_done(extension: RunEndCommand) -> None:
    while extension._tasks:
        await asyncio.wait(extension._tasks)


def test_the_command_reads_the_run_as_json_and_is_not_a_shells(
    writer: StoreWriter, tmp_path: Path
) -> None:
    read = tmp_path / "$HOME; touch x"
    command = "sh", "-c", 'cat > "$1"', "sh", str(read)
    found = events(writer, command, judged(writer, ended()))
    assert found == [("on_run_end", "FAIL: the command succeeded")]
    assert [path.name for path in tmp_path.iterdir()] == [read.name]
    document = json.loads(read.read_text())
    assert document["title"].startswith("FAIL: directory-mix, run ")
    assert (document["run_id"], document["verdict"]) == (RUN_ID, "FAIL")
    assert document["reasons"] == ["p99 was 8 ms"]
    assert document["figures"] == FIGURES
    assert document["agents"] == ["load1", "load2"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (shell("exit 3"), "ended with exit status 3"),
        (shell("echo a; echo b >&2; exit 1"), "ended with exit status 1: a b"),
        (shell("kill -TERM $$"), "ended with signal 15"),
        (
            shell("echo https://u:s3cret@h/; exit 1"),
            "exit status 1: https://u:***@h/",
        ),
        # gone since the start
        (("/no/such",), "could not be started"),
    ],
)
def test_a_command_that_fails_is_an_event_with_its_reason(
    writer: StoreWriter, command: tuple[str, ...], why: str
) -> None:
    [(kind, text)] = events(writer, command, judged(writer, ended()))
    assert kind == "on_run_end_failed"
    assert text.startswith("FAIL: the command ")
    assert why in text


def test_a_coordinator_does_not_start_without_the_program() -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-program'"):
        asyncio.run(RunEndCommand(["no-such-program", "x"]).check())
    asyncio.run(RunEndCommand(["sh"]).check())


def test_of_endless_output_the_end_is_kept() -> None:
    program = "import sys; sys.stdout.write('x' * 10**7 + ' last'); sys.exit(1)"
    why = asyncio.run(run_command((sys.executable, "-c", program), b"{}", 30))
    assert why.endswith("xxx last")
    assert len(why) < 2 * module._MAX_OUTPUT


def test_a_program_that_does_not_read_is_no_failure() -> None:
    assert asyncio.run(run_command(("true",), b"x" * 10**7, 30)) == ""


@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000 & echo $! > {file}; wait",
        "trap '' TERM INT; sleep 1000 & echo $! > {file}; exit 0",
    ],
    ids=["hangs", "leaves a process behind"],
)
def test_a_command_that_does_not_end_is_killed_with_its_children(
    tmp_path: Path, script: str
) -> None:
    file = tmp_path / "pid"
    begun_s = time.monotonic()
    why = asyncio.run(run_command(shell(script.format(file=file)), b"{}", 0.5))
    assert why == "was killed: it had not ended after 0.5 s"
    assert time.monotonic() - begun_s < 10
    wait_for_end(int(file.read_text()))


def wait_for_end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], 10)[0], f"process {pid} goes on"
    finally:
        os.close(process)


def test_a_process_that_left_the_group_does_not_hold_up_the_next_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pid"
    script = f"setsid sleep 20 & echo $! > {file}; exit 0"
    begun_s = time.monotonic()
    why = asyncio.run(run_command(shell(script), b"{}", 0.5))
    os.kill(int(file.read_text()), 9)
    assert why.startswith("was killed")
    assert time.monotonic() - begun_s < 10


def test_few_commands_run_at_a_time(writer: StoreWriter, tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/$$; ls {tmp_path} | wc -l >> {tmp_path}.count; "
    script += f"sleep 0.2; rmdir {tmp_path}/$$"

    async def work(extension: RunEndCommand) -> None:
        await writer.call(writer.store.create_run, ended())
        for number in range(5):
            extension.run_judged(JudgedRun(ended(verdict=f"v{number}")))
        await all_done(extension)

    found = events(writer, shell(script), work)
    assert [kind for kind, _ in found] == ["on_run_end"] * 5
    counts = Path(f"{tmp_path}.count").read_text().split()
    assert max(map(int, counts)) <= module.MOST_RUNNING


def test_ends_beyond_the_bound_are_events(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)

    async def work(extension: RunEndCommand) -> None:
        await writer.call(writer.store.create_run, ended())
        with exceeds(RUN_END_COMMANDS=1):
            for verdict in ("PASS", "FAIL", "INVALID"):
                extension.run_judged(JudgedRun(ended(verdict=verdict)))
            await all_done(extension)

    found = events(writer, ("true",), work)
    [text] = [text for kind, text in found if kind == "on_run_end_failed"]
    assert "too many ended runs wait" in text


def test_a_command_that_runs_at_the_end_is_killed(
    writer: StoreWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_GRACE_S", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pids = []

    async def work(extension: RunEndCommand) -> None:
        await writer.call(writer.store.create_run, ended())
        extension.run_judged(JudgedRun(ended()))
        pids.append(int(await asyncio.to_thread(pipe.read_text)))

    [(kind, text)] = events(writer, shell(f"echo $$ > {pipe}; sleep 1000"), work)
    assert (kind, "the coordinator ended" in text) == ("on_run_end_failed", True)
    wait_for_end(*pids)


@pytest.mark.parametrize("command", [("true",), ("false",)])
def test_a_run_is_reported_once_for_an_outcome(
    writer: StoreWriter, command: tuple[str, ...]
) -> None:
    """A run without a verdict is judged again at each start."""
    without, record = ended(verdict=None), ended()
    found = events(writer, command, judged(writer, without, without, record, record))
    assert [text.partition(":")[0] for _, text in found] == ["no verdict", "FAIL"]


async def test_a_run_that_was_judged_before_the_start_is_reported_after_it(
    writer: StoreWriter,
) -> None:
    extension = RunEndCommand(["true"])
    await writer.call(writer.store.create_run, ended())
    extension.run_judged(JudgedRun(ended()))
    await extension.start(Coordinator(writer), None)
    await all_done(extension)
    [event] = await writer.call(writer.store.events, RUN_ID)
    assert event.kind == "on_run_end"


def test_a_run_that_ended_long_ago_is_not_reported(writer: StoreWriter) -> None:
    long_ago = utc_text(datetime.now(UTC) - timedelta(hours=2))
    assert events(writer, ("true",), judged(writer, ended(finished_utc=long_ago))) == []


@pytest.mark.parametrize(
    "clock", [timedelta(hours=2), timedelta(0), timedelta(hours=-2)]
)
def test_what_is_news_does_not_depend_on_a_clock_that_is_set(clock: timedelta) -> None:
    now = datetime.now(UTC) + clock
    assert is_news(ended(), 100.0, 100.0 + 3599, now)
    assert not is_news(ended(), 100.0, 100.0 + 3601, now)


@pytest.mark.parametrize(
    ("fields", "reasons", "text"),
    [
        ({"verdict": "PASS"}, [], "PASS: directory-mix, run {} finished"),
        (
            {"state": "cancelled", "state_detail": "by ana"},
            [],
            "no verdict: directory-mix, run {} cancelled: by ana",
        ),
        (
            {"verdict": "INVALID", "state": "failed", "state_detail": "agent lost"},
            ["an interval is missing", "books"],
            "INVALID: directory-mix, run {} failed: an interval is missing",
        ),
        (
            {"verdict": "PASS", "job_name": "mix\r\nBcc: v@example.com"},
            [],
            "PASS: mix Bcc: v@example.com, run {} finished",
        ),
    ],
)
def test_the_title_is_one_line(
    fields: dict[str, str], reasons: list[str], text: str
) -> None:
    record = run_record(Scenario(run=fields))
    assert title_of(record, reasons) == text.format(RUN_ID)
