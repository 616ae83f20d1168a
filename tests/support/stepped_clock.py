# SPDX-License-Identifier: Apache-2.0
"""Processes whose wall clock steps when a test says so (stepped_clock.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SHIM = Path(__file__).with_suffix(".c")


def with_stepped_clock(folder: Path, step_ms: int) -> tuple[list[str], Path]:
    """What to put before a command, and the file that makes its clock step once it is
    there; the library goes into the folder."""
    library, is_stepped = folder / "stepped.so", folder / "stepped"
    build = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SHIM), "-ldl"]
    subprocess.run(build, check=True)
    shim = [f"LD_PRELOAD={library}", f"STEPPED_CLOCK_FILE={is_stepped}"]
    return ["env", *shim, f"STEPPED_CLOCK_MS={step_ms}"], is_stepped
