# SPDX-License-Identifier: Apache-2.0
"""Which clock a process has: two of the same need no estimate of their offset."""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


def clock_id() -> str:
    """The same text for processes with one CLOCK_MONOTONIC, which counts from the boot
    plus the offset of the time namespace; empty: unknown."""
    boot = boot_id()
    try:
        return f"{boot} {_TIME_NAMESPACE.readlink()}" if boot else ""
    except OSError:
        return ""


def boot_id() -> str:
    """Tells one start of this host from another; empty: not known."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""
