# SPDX-License-Identifier: Apache-2.0
"""What a gate's host does beside the gate."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ldapslam.cli.study import other_load
from ldapslam.cli.study.other_load import OtherLoad

#: A process and its child use so much CPU time, each.
_USED_S = 0.2
_BURN = f"""
import subprocess, sys, time
def burn():
    while time.process_time() < {_USED_S}:
        pass
burn()
if sys.argv[1:]:
    subprocess.run([sys.executable, "-c", sys.argv[1]])
print("used", flush=True)
sys.stdin.read()
"""


def test_what_descendants_use_is_the_gates_also_when_they_have_ended() -> None:
    _, _, before_s = other_load._cpu_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", _BURN, _BURN.replace("sys.stdin.read()", "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        # the child has ended by now, its parent has not
        assert [process.stdout.readline() for _ in range(2)] == ["used\n"] * 2
        used_s = other_load._cpu_seconds()[2] - before_s
        assert used_s >= 2 * _USED_S - 0.05  # in ticks
        process.communicate()
    assert other_load._cpu_seconds()[2] - before_s >= used_s


@pytest.mark.parametrize(
    ("after", "share"),
    [
        ((110.0, 44.0, 5.0), 0.3),
        ((110.0, 41.0, 5.0), 0.0),
        ((100.0, 40.0, 4.0), None),  # no tick since
    ],
)
def test_the_share_is_of_what_all_others_used(
    monkeypatch: pytest.MonkeyPatch, after: tuple[float, ...], share: float | None
) -> None:
    seen = iter([(100.0, 40.0, 4.0), after])
    monkeypatch.setattr(other_load, "_cpu_seconds", lambda: next(seen))
    assert OtherLoad().share == share
