# SPDX-License-Identifier: Apache-2.0
"""The ledgers of a run that is under way, and the clean-up at its end.

    with run_ledgers(folder, run_id, plan) as ledgers:
        ledgers.note_begin(t0_s)            before the first add
        …                                   the engine writes below ledgers.folder
        ledgers.note_alive()                about once a second
        facts = ledgers.clean_up(tell)      once, after the engine's last interval

A process that is killed leaves the folder: `ldapslam run --cleanup` goes on from there.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ldapslam.agent.ledgers.cleanup import clean_up
from ldapslam.agent.ledgers.folder import (
    locked,
    make_folder,
    needs_ledgers,
    note_alive,
    note_begin,
)
from ldapslam.base.errors import LdapSlamError
from ldapslam.jobs.plan import AgentPlan

_log = logging.getLogger(__name__)
_TELL_S = 2.0

Operations = Mapping[str, Mapping[str, int]]


class RunLedgers:
    """Of one run; without a folder the run adds nothing that is to be removed."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        #: URI -> operation -> what the clean-up cost that server.
        self.operations: Operations = {}
        self._is_clean = folder is None

    def note_begin(self, begun_s: float) -> None:
        """No request is sent before that moment, in seconds since 1970."""
        if self.folder is not None:
            note_begin(self.folder, begun_s)

    def note_alive(self) -> None:
        """Requests may be under way now."""
        if self.folder is not None:
            note_alive(self.folder)

    def clean_up(self, tell: Callable[[int], None]) -> dict[str, Any]:
        """Remove what the run left, once; facts for the manifest. `tell` hears every
        two seconds, on a thread of its own, how many entries are still there."""
        if self._is_clean or self.folder is None:
            return {}
        self._is_clean = True
        left = 0

        def note(entries: int) -> None:
            nonlocal left
            left = entries

        try:
            with _repeated(lambda: tell(left)):
                report = clean_up(self.folder, note)
        except LdapSlamError as error:
            _log.error("clean-up: %s", error)
            return {"clean_up": {"error": str(error), "folder": str(self.folder)}}
        self.operations = report.control_operations
        facts = report.facts()
        if report.left:
            _log.error("%d entries are left; see %s", report.left, self.folder)
            facts["folder"] = str(self.folder)
        return {"clean_up": facts}


@contextlib.contextmanager
def run_ledgers(folder: str, run_id: str, plan: AgentPlan) -> Iterator[RunLedgers]:
    """Make the folder if the plan adds entries, and have it alone."""
    if not folder or not needs_ledgers(plan):
        yield RunLedgers(None)
        return
    path = Path(folder)
    make_folder(path, run_id, plan)
    with locked(path):
        ledgers = RunLedgers(path)
        try:
            yield ledgers
        finally:
            # of a run that failed: nobody is there to be told
            ledgers.clean_up(lambda left: None)


@contextlib.contextmanager
def _repeated(call: Callable[[], None]) -> Iterator[None]:
    """Within, `call` is made every two seconds; after it, no more."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_TELL_S):
            call()

    thread = threading.Thread(target=work, name="clean-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def added(*parts: Operations) -> dict[str, dict[str, int]]:
    """URI -> operation -> the sum over the parts."""
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        for uri, counts in part.items():
            into = total.setdefault(uri, {})
            for operation, count in counts.items():
                into[operation] = into.get(operation, 0) + count
    return total


def clean_up_aside(folder: Path) -> None:
    """Remove what a run left whose engine was killed, on a thread that ends with this
    process: what it then has not done, `ldapslam run --cleanup` does."""
    if folder.exists():
        threading.Thread(
            target=_clean_up_and_say, args=(folder,), name="clean-up", daemon=True
        ).start()


def _clean_up_and_say(folder: Path) -> None:
    name = folder.name
    _log.warning("run %s: its engine was killed; removing what it added", name)
    try:
        with locked(folder):
            report = clean_up(folder)
    except (LdapSlamError, OSError) as error:
        _log.error("run %s: %s", name, error)
        return
    gone = report.deleted + report.already_gone
    level = logging.ERROR if report.left else logging.WARNING
    _log.log(level, "run %s: %d entries removed, %d left", name, gone, report.left)
