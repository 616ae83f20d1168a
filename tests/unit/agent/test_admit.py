# SPDX-License-Identifier: Apache-2.0
"""How many threads an engine gets."""

from __future__ import annotations

import pytest

from ldapslam.agent.admission import admit
from ldapslam.agent.admission.limits import AgentLimits


@pytest.mark.parametrize(
    ("wanted", "max_cpu_ratio", "workers"),
    [(0, None, 3), (8, None, 8), (8, 1.0, 4), (2, 1.0, 2)],
)
def test_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch,
    wanted: int,
    max_cpu_ratio: float | None,
    workers: int,
) -> None:
    """One CPU is left to others; where CPUs are limited, no more than there are."""
    monkeypatch.setattr(admit, "usable_cores", lambda: 4)
    monkeypatch.setattr(admit, "keep_to_cpus", lambda _: None)
    limits = AgentLimits(max_cpu_ratio=max_cpu_ratio)
    assert admit.workers_for(wanted, limits) == workers
