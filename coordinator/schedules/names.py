# SPDX-License-Identifier: Apache-2.0
"""Names that people give: of agents, schedules, windows."""

MAX_NAME = 64


def is_usable(name: str) -> bool:
    """Something that can be seen, on one line, and not too long for a table."""
    return bool(name.strip()) and len(name) <= MAX_NAME and name.isprintable()
