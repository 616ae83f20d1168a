# SPDX-License-Identifier: Apache-2.0
"""A replay made ready: its log read, its requests made, its connections counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.jobs.replay.log import Log
from ldapslam.jobs.replay.options import Replay
from ldapslam.jobs.replay.read import read_log
from ldapslam.jobs.replay.requests import Identity, Requests
from ldapslam.jobs.replay.trace import Pace, Schedule, schedule


def read_logs(paths: Sequence[Path]) -> Log:
    """A log, or a ConfigError that says why there is none."""
    try:
        return read_log(paths)
    except Fault as fault:
        raise ConfigError(fault.reason, hint=fault.hint) from None


def prepare(
    replay: Replay,
    log: Log,
    pace: Pace,
    *,
    connections: int,
    seed: int,
    identity: Identity | None = None,
) -> Schedule:
    """What is sent, on at most so many connections; ConfigError when they are not
    enough, or when there is nothing to send."""
    made = schedule(log, pace, Requests(replay, seed, identity))
    needed = len(made.connections)
    if needed > connections:
        raise ConfigError(
            f"the log has up to {needed} connections at once, the job {connections}",
            hint=f"write load: {{replay: {{connections: {needed}}}}}",
        )
    if made.total == 0:
        reasons = "; ".join(f"{why} ({n})" for (_, why), n in made.skipped.items())
        raise ConfigError(
            "nothing of the log can be replayed", hint=reasons or "it has no requests"
        )
    return made
