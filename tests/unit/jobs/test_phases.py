# SPDX-License-Identifier: Apache-2.0
"""Phases follow each other without gaps; intervals never cross from one to the next."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.model import Run
from ldapslam.jobs.plan import (
    interval_boundaries_ns,
    measure_span,
    phase_at,
    phase_spans,
)
from ldapslam.jobs.run_plan import PhaseSpan

S, MS = NS_PER_S, NS_PER_S // 1000


def run(**lengths: str) -> Run:
    return Run.model_validate(lengths)


def test_phases_are_in_order_from_zero_and_skip_empty_ones() -> None:
    assert phase_spans(run(duration="10s", ramp_up="2s", cool_down="1s")) == (
        PhaseSpan("ramp_up", 0, 2 * S),
        PhaseSpan("measure", 2 * S, 12 * S),
        PhaseSpan("cool_down", 12 * S, 13 * S),
    )


@pytest.mark.parametrize(
    ("time_ns", "phase"),
    [
        (0, "warm_up"),
        (5 * S - 1, "warm_up"),
        (5 * S, "measure"),
        (15 * S - 1, "measure"),
        (15 * S, "drain"),
        (99 * S, "drain"),
    ],
)
def test_phase_of_a_time(time_ns: int, phase: str) -> None:
    assert phase_at(phase_spans(run(duration="10s", warm_up="5s")), time_ns) == phase


@pytest.mark.parametrize(
    ("lengths", "ends_ms"),
    [
        pytest.param({"duration": "3s"}, [1000, 2000, 3000], id="whole intervals"),
        pytest.param({"duration": "2500ms"}, [1000, 2000, 2500], id="a last half"),
        pytest.param(
            # 50 ms at the end are less than a tenth: [1000, 2050) is one interval.
            {"duration": "2050ms"},
            [1000, 2050],
            id="a sliver at the end",
        ),
        pytest.param(
            # The measure phase begins at 950: 950 to 1000 joins what follows.
            {"warm_up": "950ms", "duration": "2s"},
            [950, 2000, 2950],
            id="a sliver at the start",
        ),
        pytest.param(
            {"ramp_up": "50ms", "duration": "2s"},
            [50, 1000, 2050],
            id="a phase that is a sliver stays an interval",
        ),
        pytest.param(
            {"warm_up": "1500ms", "duration": "2s", "cool_down": "700ms"},
            [1000, 1500, 2000, 3000, 3500, 4000, 4200],
            id="phase ends between the multiples",
        ),
        pytest.param(
            {"duration": "60s", "interval": "5s", "warm_up": "7s"},
            [5000, 7000, *range(10_000, 66_000, 5000), 67_000],
            id="multiples count from T0",
        ),
    ],
)
def test_intervals_end_at_multiples_and_at_phase_ends(
    lengths: dict[str, str], ends_ms: list[int]
) -> None:
    ends = interval_boundaries_ns(run(**lengths))
    assert [end // MS for end in ends] == ends_ms


LENGTHS_MS = st.integers(0, 20_000)


@given(
    ramp_up=LENGTHS_MS,
    warm_up=LENGTHS_MS,
    duration=st.integers(1, 20_000),
    cool_down=LENGTHS_MS,
    interval=st.integers(100, 5_000),
)
def test_any_time_line_is_cut_into_intervals_of_one_phase_each(
    ramp_up: int, warm_up: int, duration: int, cool_down: int, interval: int
) -> None:
    time_line = run(
        ramp_up=f"{ramp_up}ms",
        warm_up=f"{warm_up}ms",
        duration=f"{duration}ms",
        cool_down=f"{cool_down}ms",
        interval=f"{interval}ms",
    )
    spans, ends = phase_spans(time_line), interval_boundaries_ns(time_line)
    measured = (ramp_up + warm_up) * MS, (ramp_up + warm_up + duration) * MS
    assert measure_span(time_line) == PhaseSpan("measure", *measured)
    assert ends[-1] == (ramp_up + warm_up + duration + cool_down) * MS
    assert {span.end_ns for span in spans} <= set(ends)
    sliver_ns = interval * MS // 10
    phase_ends = {span.end_ns for span in spans}
    for start, end in itertools.pairwise((0, *ends)):
        assert start < end
        assert phase_at(spans, start) == phase_at(spans, end - 1)
        # Never longer than an interval and two slivers, and a sliver only where the
        # whole phase is one.
        assert end - start < interval * MS + 2 * sliver_ns
        whole_phase = end in phase_ends and start in (phase_ends | {0})
        assert end - start >= sliver_ns or whole_phase
