# SPDX-License-Identifier: Apache-2.0
"""Names of runs, agents, jobs and schedules. A name is one part of a path and a part of
one line of text, wherever it goes: it is checked once, where it is read from a store, a
file or a message."""

from __future__ import annotations

from ldapslam.base.fault import Fault

MAX_NAME = 64
#: For hints.
NAME_RULE = (
    f"1 to {MAX_NAME} bytes of printable characters, no '/', no '.' or '-' at the "
    "beginning and no spaces at the ends"
)


def is_name(text: object) -> bool:
    return (
        isinstance(text, str)
        and 0 < len(text.encode(errors="replace")) <= MAX_NAME
        and text.isprintable()
        and text == text.strip()
        and "/" not in text
        and text[0] not in ".-"
    )


def checked_name(text: str) -> str:
    """Return the name; Fault where it is none."""
    if not is_name(text):
        raise Fault(f"{text[: 2 * MAX_NAME]!r} is no name", f"a name has {NAME_RULE}")
    return text
