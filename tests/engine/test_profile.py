# SPDX-License-Identifier: Apache-2.0
"""The plan's arithmetic of rates over time is the engine's (csrc/load/pacer.c)."""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.rates.profile import Profile, Segment, arrivals_by, hold, ramp, sine

SOURCES = Path(__file__).parents[2] / "agent" / "csrc"
PER_S = 1 / NS_PER_S

ArrivalsBy = Callable[[Profile, int], float]


class RateSegment(ctypes.Structure):
    """struct slam_rate_segment"""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("duration_ns", ctypes.c_uint64),
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("c", ctypes.c_double),
        ("start_ns", ctypes.c_uint64),
        ("first", ctypes.c_double),
        ("end", ctypes.c_double),
    )


@pytest.fixture(scope="module")
def engine_arrivals_by(tmp_path_factory: pytest.TempPathFactory) -> ArrivalsBy:
    """N(t) by the engine's pacer, built by itself."""
    library = tmp_path_factory.mktemp("pacer") / "pacer.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    files = [str(SOURCES / name) for name in ("load/pacer.c", "core/rng.c")]
    subprocess.run(
        [
            *(compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC"),
            f"-I{SOURCES}",
            *("-o", str(library)),
            *files,
            "-lm",
        ],
        check=True,
    )
    pacer = ctypes.CDLL(str(library))
    pacer.slam_rate_profile_arrivals.restype = ctypes.c_double
    pacer.slam_rate_profile_arrivals.argtypes = (
        ctypes.POINTER(RateSegment),
        ctypes.c_size_t,
        ctypes.c_uint64,
    )

    def arrivals(profile: Sequence[Segment], t_ns: int) -> float:
        segments = (RateSegment * len(profile))(
            *(RateSegment(*segment) for segment in profile)
        )
        reason = ctypes.create_string_buffer(200)
        status = pacer.slam_rate_profile_prepare(
            segments, ctypes.c_size_t(len(profile)), reason, ctypes.c_size_t(200)
        )
        assert status == 0, reason.value
        return float(pacer.slam_rate_profile_arrivals(segments, len(profile), t_ns))

    return arrivals


rates = st.floats(0, 1e6).map(lambda per_s: per_s * PER_S)
durations = st.integers(1, 3600 * NS_PER_S)
profiles = st.lists(
    st.builds(ramp, rates, rates, durations)
    | st.builds(hold, rates, durations)
    | st.builds(
        lambda mean, share, period_ns, duration_ns: sine(
            mean, mean * share, period_ns, duration_ns
        ),
        rates,
        st.floats(0, 1),
        st.integers(NS_PER_S // 1000, 3600 * NS_PER_S),
        durations,
    ),
    min_size=1,
    max_size=6,
).map(tuple)


@given(profile=profiles, share=st.floats(0, 1.1))
def test_arrivals_by_a_time_are_those_of_the_engine(
    engine_arrivals_by: ArrivalsBy, profile: Profile, share: float
) -> None:
    whole_ns = sum(segment.duration_ns for segment in profile)
    t_ns = int(whole_ns * share)
    assert arrivals_by(profile, t_ns) == pytest.approx(
        engine_arrivals_by(profile, t_ns), rel=1e-9, abs=1e-6
    )
