# SPDX-License-Identifier: Apache-2.0
"""A run's progress: plain lines in a log, a live table with curves on a terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from ldapslam.cli.live_view import LastMinute, curve, live_view
from ldapslam.cli.progress import Progress, interval_line
from ldapslam.proto import operator_pb2 as pb

S = 1_000_000_000

READERS = pb.StreamFigures(
    stream="readers",
    in_flight=16,
    total=pb.OperationFigures(
        throughput_per_s=12_345.6,
        completed=12_346,
        response_time_p50_us=210.4,
        response_time_p99_us=3_400,
        response_time_max_us=9_000,
    ),
)
WRITERS = pb.StreamFigures(
    stream="writers",
    backlog=4,
    total=pb.OperationFigures(throughput_per_s=19, errors=2, dropped=3),
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
        "00:05 measure   readers 12,346 requests/s p50 0.21 ms p99 3.4 ms errors 0"
        " | writers 19 requests/s no success errors 2 dropped 3 backlog 4"
    )


def found(entries: int, empty: int) -> pb.IntervalFigures:
    total = pb.OperationFigures(
        searches=12_346, entries=entries, empty_share=empty / 12_346
    )
    return pb.IntervalFigures(streams=[pb.StreamFigures(total=total)])


def of_writers(total: pb.OperationFigures, down: float = 0) -> pb.IntervalFigures:
    writers = pb.StreamFigures(total=total, connections_down=down)
    return pb.IntervalFigures(streams=[pb.StreamFigures(), writers])


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (found(12_346, 0), " p99 3.4 ms entries per search 1.00 errors 0 | writers"),
        (found(6_173, 6_173), " entries per search 0.50 "),
        (found(247, 12_099), " entries per search 0.02 (98% found none) "),
        (
            of_writers(pb.OperationFigures(response_time_max_us=210), down=3.96),
            "/s p50 – max 0.21 ms errors 2 4 connections down ",
        ),
        (
            of_writers(
                pb.OperationFigures(
                    response_time_p50_us=210,
                    response_time_p99_us=math.inf,
                    response_time_max_us=math.inf,
                )
            ),
            "/s p50 0.21 ms p99 no answer errors 2 ",
        ),
        (
            of_writers(pb.OperationFigures(error_code=50)),
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
    some.streams[1].total.error_code = 50
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


# A run as a terminal shows it: rows, curves of the last minute, widths, encodings.


STATUS = pb.RunStatus(run_id="r1", job_name="mixed", planned_ns=65 * S)


def operation(
    name: str, rate: float, p99_ms: float | None = None
) -> pb.OperationFigures:
    figures = pb.OperationFigures(
        operation=name, throughput_per_s=rate, completed=round(rate)
    )
    if p99_ms is not None:
        figures.response_time_p50_us = 210
        figures.response_time_p99_us = p99_ms * 1000
        figures.response_time_max_us = p99_ms * 2000
    return figures


def interval(
    end_s: float,
    *streams: tuple[str, list[pb.OperationFigures]],
    phase: str = "measure",
    length_s: float = 1.0,
) -> pb.IntervalFigures:
    return pb.IntervalFigures(
        phase=phase,
        start_ns=round((end_s - length_s) * S),
        end_ns=round(end_s * S),
        agents_reported=2,
        agents_planned=2,
        busy_share=0.42,
        streams=[
            pb.StreamFigures(
                stream=name,
                total=operations[0]
                if len(operations) == 1
                else pb.OperationFigures(
                    throughput_per_s=sum(one.throughput_per_s for one in operations)
                ),
                operations=operations,
                in_flight=16,
            )
            for name, operations in streams
        ],
    )


def shown(
    last: pb.IntervalFigures,
    past: LastMinute | None = None,
    *,
    width: int = 160,
    encoding: str = "utf-8",
) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=out, width=width)
    console.print(live_view(STATUS, last, past or LastMinute(), console))
    out.seek(0)
    return out.read().splitlines()


def row_of(lines: list[str], name: str) -> list[str]:
    [line] = [line for line in lines if line.startswith(f"{name} ")]
    return line.removeprefix(name).split()


def test_a_stream_is_shown_with_its_operation_or_above_its_operations() -> None:
    last = interval(
        5,
        ("readers", [operation("search", 12_345.6, 3.4)]),
        ("writers", [operation("add", 19), operation("delete", 1)]),
    )
    last.streams[1].total.errors = last.streams[1].operations[0].errors = 2
    last.streams[0].total.dropped = 3
    lines = shown(last)
    assert lines[0] == (
        "mixed r1: measure, 00:05 of 01:05, 2 of 2 agents, busiest worker 42%"
    )
    assert row_of(lines, "readers search") == (
        "12,346/s 0.21 ms 3.4 ms 6.8 ms 0 3 16".split()
    )
    assert row_of(lines, "writers") == "20/s – – – 2 0 16".split()
    assert row_of(lines, "  add") == "19/s – – – 2 0".split()
    assert row_of(lines, "  delete") == "1/s – – – 0 0".split()
    # of what is nowhere, no column
    assert "backlog" not in lines[1]
    assert "entries" not in lines[1]


def test_entries_are_those_of_a_search() -> None:
    search = operation("search", 100)
    search.searches, search.entries, search.empty_share = 100, 350, 0.5
    mostly = operation("mostly", 100)
    mostly.searches, mostly.entries, mostly.empty_share = 100, 2, 0.98
    lines = shown(interval(5, ("readers", [search, mostly, operation("compare", 5)])))
    assert row_of(lines, "  search")[-1] == "3.50"
    assert " 0.02 (98% found none)" in "\n".join(lines)
    assert row_of(lines, "  compare")[-1] == "0"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([0.0, 0.0], "▁▁"),
        ([7.0, 0.0, 3.5, 7.0], "█▁▅█"),
        ([None, 1.0, None], " █ "),
        ([1e-3, 1e9], "▁█"),
        ([0.0, 1.0, 2.0, math.inf], "▁▅██"),
        ([math.inf], "█"),
    ],
)
def test_a_curve_goes_from_zero_to_its_highest(
    values: list[float | None], text: str
) -> None:
    assert curve(values) == text


def past_of(*intervals: pb.IntervalFigures) -> LastMinute:
    past = LastMinute()
    for one in intervals:
        past.add(one)
    return past


def test_the_past_is_a_minute_and_a_column_is_no_shorter_than_an_interval() -> None:
    past = past_of(
        *(interval(s, ("r", [operation("search", s, s)])) for s in range(1, 91))
    )
    key = ("r", "")
    # 60 s in 30 columns: two intervals each, the mean and the highest of them
    assert past.throughput(key, 30) == [s + 0.5 for s in range(31, 91, 2)]
    assert past.p99(key, 30) == [s * 1000 for s in range(32, 91, 2)]
    # 5 s each: twelve at most, whatever the width
    slow = past_of(
        *(
            interval(s, ("r", [operation("search", s)]), length_s=5)
            for s in range(5, 305, 5)
        )
    )
    assert slow.throughput(key, 30) == [None] * 18 + list(range(245, 305, 5))
    assert slow.p99(key, 2) == [None, None]


def test_a_gap_is_a_gap_and_a_drain_is_left_out() -> None:
    past = past_of(
        interval(1, ("r", [operation("search", 4)])),
        interval(2),
        interval(3, ("r", [operation("search", 8)])),
        interval(3.01, ("r", [operation("search", 900)]), phase="drain", length_s=0.01),
    )
    assert past.throughput(("r", ""), 60)[-3:] == [4, None, 8]
    assert past.throughput(("nobody", ""), 3) == [None] * 3


def busy() -> tuple[pb.IntervalFigures, LastMinute]:
    made = []
    for second in range(1, 61):
        search = operation("search", 1000 + second, second)
        search.searches, search.entries = 1000, 2000
        made.append(interval(second, ("readers", [search, operation("add", 7, 9)])))
    return made[-1], past_of(*made)


@pytest.mark.parametrize(
    ("width", "has", "lacks", "curves"),
    [
        (42, ["p99", "errors"], ["p50", "last minute"], 0),
        (60, ["p50", "p99"], ["max", "in flight"], 1),
        (76, ["p50", "entries", "in flight"], ["max"], 1),
        (120, ["max", "in flight"], [], 2),
        (300, ["max", "in flight"], [], 2),
    ],
)
def test_the_view_fits_the_terminal(
    width: int, has: list[str], lacks: list[str], curves: int
) -> None:
    lines = shown(*busy(), width=width)
    header = next(line for line in lines if line.startswith("stream"))
    assert max(len(line.rstrip()) for line in lines) <= width
    assert [one for one in has if one not in header] == []
    assert [one for one in lacks if one in header] == []
    assert header.count("last minute") == curves
    [search] = [line for line in lines if line.startswith("  search")]
    drawn = [word for word in search.split() if set(word) & set("▁▂▃▄▅▆▇█")]
    assert len(drawn) == curves
    assert all(11 <= len(one) <= 30 for one in drawn)


def test_an_encoding_without_blocks_gets_ascii() -> None:
    lines = shown(*busy(), width=80, encoding="ascii")
    assert "\n".join(lines).isascii()
    [search] = [line for line in lines if line.startswith("  search")]
    assert " 0.21 ms " in search
    assert "#" in search


def test_before_the_first_interval_the_state_is_shown() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    status = pb.RunStatus(run_id="r1", job_name="mixed", state="preparing")
    console.print(live_view(status, None, LastMinute(), console))
    assert console.export_text() == "mixed r1: preparing\n"
