# SPDX-License-Identifier: Apache-2.0
"""What is where in the folder of a study or a search; imports nothing, for commands
that only ask whether it is one."""

from __future__ import annotations

from pathlib import Path

JOURNAL = "runs.jsonl"
#: Below it each run has a folder.
RUNS = "runs"


def is_run_of_study(folder: Path) -> bool:
    """Whether a study or a search has made the run of this folder, as one of many."""
    runs = folder.parent
    return runs.name == RUNS and (runs.parent / JOURNAL).is_file()
