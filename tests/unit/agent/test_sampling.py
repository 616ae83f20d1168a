# SPDX-License-Identifier: Apache-2.0
"""Monitors are opened at the same time, and those that cannot be say why."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ldapslam.agent.monitoring.process import Sampling
from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.base.errors import TargetError
from ldapslam.results.records import Metric

#: Until all of them are there.
LIMIT_S = 10.0


class Meeting(Monitor):
    """A monitor that is open once the others are being opened too."""

    metrics = (Metric("figure", "1", "gauge"),)

    def __init__(self, name: str, others: threading.Barrier) -> None:
        super().__init__(name, 0)
        self._others = others

    def open(self) -> Mapping[str, Any]:
        self._others.wait(LIMIT_S)
        if self.name == "broken":
            raise TargetError("it does not answer")
        return {"of": self.name}

    def sample(self) -> Sequence[float]:
        return (1.0,)


def test_monitors_do_not_wait_for_each_other() -> None:
    names = ["first", "broken", "last"]
    others = threading.Barrier(len(names))
    watched = Sampling(1_000_000_000).open(Meeting(name, others) for name in names)
    assert [one.name for one in watched] == names
    assert [dict(one.facts) for one in watched] == [
        {"of": "first"},
        {"failure": "it does not answer"},
        {"of": "last"},
    ]
