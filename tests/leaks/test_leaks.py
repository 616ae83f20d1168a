# SPDX-License-Identifier: Apache-2.0
"""Memory stays flat, measured in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent

#: The histograms of one engine take 4 MiB. What is allowed is the allocators' own
#: unrest; a hundred bytes leaked with each request would show, too.
_ALLOWED_KIB = 4 * 1024


def test_engine_runs_leave_memory_flat() -> None:
    output = subprocess.run(
        [sys.executable, str(_HERE / "engine_runs.py")],
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert int(output) < _ALLOWED_KIB
