# SPDX-License-Identifier: Apache-2.0
"""The hiccup meter as Python has it; test_hiccup.c stops its process."""

from __future__ import annotations

import pytest

from ldapslam.agent._engine import HiccupMeter


def test_a_meter_tells_how_late_its_thread_woke_up() -> None:
    meter = HiccupMeter(realtime=False)
    longest_ns, stalled_ns = 0, 0
    while not longest_ns:
        longest_ns, stalled_ns = meter.take()
    assert stalled_ns == 0 or stalled_ns >= 1_000_000
    assert (longest_ns >= 1_000_000) is (stalled_ns > 0)


def test_a_meter_is_closed_once() -> None:
    meter = HiccupMeter(realtime=True)
    meter.close()
    meter.close()
    with pytest.raises(RuntimeError, match="closed"):
        meter.take()
