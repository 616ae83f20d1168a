# SPDX-License-Identifier: Apache-2.0
"""What others may hang on the coordinator, and what they may ask of it.

The coordinator stores results and never renders them: whoever starts it brings what
judges a run (its verdict), what tells of it (notifications) and what shows it
(metrics). All calls are made on the coordinator's event loop and must not block it; an
observer's error is logged and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import RunRecord

#: Run id -> PASS, FAIL or INVALID; None when it cannot be judged. Takes its time.
Judge = Callable[[str], Awaitable[str | None]]


class Observer(Protocol):
    """Is told what happens to runs."""

    def run_changed(self, status: pb.RunStatus) -> None:
        """A run has another state, agents or T0."""

    def interval_measured(self, run_id: str, figures: pb.IntervalFigures) -> None:
        """Every agent has reported this interval."""

    def run_judged(self, record: RunRecord) -> None:
        """A run is over for good: its end and its verdict are stored."""


@dataclass(frozen=True, slots=True)
class Hooks:
    judge: Judge | None = None
    observers: Sequence[Observer] = ()


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run in the queue."""

    run_id: str
    #: Its servers (`server_of`).
    targets: frozenset[str]
    #: Length of the plan, with its drain.
    planned_ns: int
    #: May begin, as far as time and order are concerned; waits for agents and targets.
    is_released: bool
    not_before_utc: str | None = None
    after_run: str | None = None
    #: any, pass or fail.
    after_if: str = "any"


class Queue(Protocol):
    """What a scheduler may ask of the coordinator."""

    async def submit_scheduled(
        self, request: pb.SubmitJobRequest, schedule_id: str, run_id: str
    ) -> None:
        """Queue a run of a schedule under an id that is already in the books, so that
        a crash neither loses nor doubles it. It may wait for agents without limit of
        its own but the request's. LdapSlamError as `submit`."""

    def waiting(self) -> Sequence[WaitingRun]:
        """The queue, in order."""

    async def release(self, run_id: str) -> None:
        """The run's time has come, and what it waited for has ended as it should. It
        fails when the store has no room for it."""

    async def drop(self, run_id: str, reason: str) -> None:
        """The run will never begin: it ends as cancelled, for this reason."""

    async def cancel_run(self, run_id: str, by: str) -> None:
        """End a run, queued or live; nothing when it has ended."""

    def hold(self, run_ids: frozenset[str]) -> None:
        """These, of those waiting, may not be given agents now; replaces what was."""

    def explain(self, run_id: str, reason: str) -> None:
        """What a waiting run waits for, for its detail."""

    def ask_before(self, hindrance: Callable[[WaitingRun], str]) -> None:
        """To be asked of each run before it may be given agents for the first time: a
        text holds it back, until `hold` says otherwise."""
