# SPDX-License-Identifier: Apache-2.0
"""A run's progress: plain lines in a log, a live table on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ldapslam.cli.progress import Progress, interval_line
from ldapslam.proto import operator_pb2 as pb

S = 1_000_000_000

READERS = pb.StreamFigures(
    stream="readers",
    throughput_per_s=12_345.6,
    completed=12_346,
    in_flight=16,
    response_time_p50_us=210.4,
    response_time_p99_us=3_400,
    response_time_max_us=9_000,
)
WRITERS = pb.StreamFigures(
    stream="writers", throughput_per_s=19, errors=2, dropped=3, backlog=4
)


def figures() -> pb.IntervalFigures:
    return pb.IntervalFigures(
        index=4,
        phase="measure",
        start_ns=4 * S,
        end_ns=5 * S,
        streams=[READERS, WRITERS],
        agents_reported=2,
        agents_planned=2,
        busy_share=0.42,
    )


def test_an_interval_is_one_line_with_what_matters() -> None:
    assert interval_line(figures()) == (
        "00:05 measure   readers 12,346 requests/s p50 210 µs p99 3.40 ms errors 0"
        " | writers 19 requests/s no success errors 2 dropped 3 backlog 4"
    )


def found(entries: int, empty: int) -> pb.IntervalFigures:
    stream = pb.StreamFigures(searches=12_346, entries=entries, empty=empty)
    return pb.IntervalFigures(streams=[stream])


def of_writers(writers: pb.StreamFigures) -> pb.IntervalFigures:
    return pb.IntervalFigures(streams=[pb.StreamFigures(), writers])


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (found(12_346, 0), " p99 3.40 ms entries per search 1.00 errors 0 | writers"),
        (found(6_173, 6_173), " entries per search 0.50 "),
        (found(247, 12_099), " entries per search 0.02 (98% found none) "),
        (
            of_writers(
                pb.StreamFigures(connections_down=3.96, response_time_max_us=210)
            ),
            "/s p50 – max 210 µs errors 2 4 connections down ",
        ),
        (
            of_writers(pb.StreamFigures(error_code=50)),
            " errors 2 (insufficientAccessRights) dr",
        ),
        (pb.IntervalFigures(end_ns=3_725 * S), "1:02:05 measure"),
        (pb.IntervalFigures(agents_planned=3), " | 1 of 3 agents missing"),
        (pb.IntervalFigures(phase="drain"), "drain     readers 12,346 requests p50"),
    ],
)
def test_what_else_matters_is_in_the_line(more: pb.IntervalFigures, part: str) -> None:
    some = figures()
    for stream, its in zip(some.streams, more.streams, strict=False):
        stream.MergeFrom(its)
    del more.streams[:]
    some.MergeFrom(more)
    assert part in interval_line(some)


def test_a_drain_has_no_rate_and_errors_have_a_code_on_a_terminal() -> None:
    some = figures()
    some.phase = "drain"
    some.streams[1].error_code = 50
    screen = io.StringIO()
    with Progress(Console(file=screen, force_terminal=True, width=120)) as progress:
        progress.show(pb.RunUpdate(figures=some))
    assert "dropped" in screen.getvalue()
    assert "2 (insufficientAccessRights)" in screen.getvalue()
    assert "/s" not in screen.getvalue()


def updates() -> list[pb.RunUpdate]:
    running = pb.RunStatus(run_id="r1", job_name="mixed", state="running")
    ended = pb.RunStatus(run_id="r1", state="finished", state_detail="as planned")
    return [
        pb.RunUpdate(status=running),
        pb.RunUpdate(status=running),
        pb.RunUpdate(figures=figures()),
        pb.RunUpdate(event=pb.RunEvent(kind="agent_lost", text="two is gone")),
        pb.RunUpdate(status=ended),
    ]


@pytest.mark.parametrize(
    "console", [None, Console(file=io.StringIO(), force_terminal=True)]
)
def test_without_a_terminal_that_moves_its_cursor_updates_are_lines_on_stderr(
    console: Console | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with Progress(console) as progress:
        for update in updates():
            progress.show(update)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "run r1 is running",
        interval_line(figures()),
        "agent_lost: two is gone",
        "run r1 is finished: as planned",
    ]


def test_on_a_terminal_a_table_is_live_and_news_scroll_by() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with Progress(console) as progress:
        for update in updates():
            progress.show(update)
    assert "agent_lost: two is gone" in screen.getvalue()
    assert "12,346/s" in screen.getvalue()


def test_what_an_event_has_said_the_state_does_not_say_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress() as progress:
        for event, state in (("agent 'a': it is full", "failed"), ("other", "ended")):
            told = pb.RunEvent(kind="agent_failed", text=event)
            progress.show(pb.RunUpdate(event=told))
            status = pb.RunStatus(run_id="r1", state=state, state_detail="it is full")
            progress.show(pb.RunUpdate(status=status))
    assert capsys.readouterr().err.splitlines() == [
        "agent_failed: agent 'a': it is full",
        "run r1 is failed",
        "agent_failed: other",
        "run r1 is ended: it is full",
    ]


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("t0_utc", ["", "2026-03-01T12:00:00Z"])
def test_the_failure_that_is_the_error_of_the_command_is_told_once(
    is_local: bool, t0_utc: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(is_local=is_local) as progress:
        preparing = pb.RunStatus(run_id="r1", state="preparing", t0_utc=t0_utc)
        progress.show(pb.RunUpdate(status=preparing))
        told = pb.RunEvent(kind="agent_failed", text="agent 'a': it is full")
        progress.show(pb.RunUpdate(event=told))
    assert ("it is full" in capsys.readouterr().err) is not (is_local and not t0_utc)
