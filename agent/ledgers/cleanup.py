# SPDX-License-Identifier: Apache-2.0
"""Removes the entries that a run added and did not delete itself.

It needs the ledgers alone, so it also follows a killed run, and can be interrupted and
repeated: each removal is noted at once. Deletes are pipelined, deepest entries first.
An entry in doubt (an operation on it was under way when the engine ended) is deleted
only when the server says that the run's identity added it during the run; in a later
clean-up the time of every entry is checked. A killed process leaves the folder to the
next run of its agent on one of those servers, and to `ldapslam run --cleanup`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ldap
from ldap.dn import is_dn, str2dn

from ldapslam.agent.ledgers.folder import (
    IN_DOUBT,
    LEFT,
    CleanUpPlan,
    CleanUpStream,
    LedgerFile,
    LedgerRecord,
    State,
    folders_left,
    ledgers_to_clean,
    locked,
    make_folder,
    needs_ledgers,
    note_alive,
    note_begin,
    read_plan,
)
from ldapslam.agent.pipe import repeated
from ldapslam.base.errors import LdapSlamError, TargetUnreachable
from ldapslam.directory.access import connect, error_text, parse_time, result_code_of
from ldapslam.jobs.plan import AgentPlan

_log = logging.getLogger(__name__)

WINDOW = 64
#: Entries that are looked up before they are deleted.
_BATCH = 5_000
#: For what earlier runs left; agents have two minutes to become ready.
_EARLIER_S = 45.0
CLOCK_TOLERANCE_S = 2.0
#: How late a server may be with the last adds of a run.
LATE_ADDS_S = 60.0
#: DNs that a report names.
_NAMED = 20
_ATTEMPTS = 5
_PAUSE_S = 0.2
_PROGRESS_S = 1.0
_NO_SUCH_OBJECT = 32
#: busy, unavailable; notAllowedOnNonLeaf: another agent may delete the child first
_TRY_AGAIN = (51, 52, 66)


@dataclass(slots=True)
class CleanUpReport:
    """What became of the entries that were left when the load was over."""

    entries: int = 0
    deleted: int = 0
    #: Deleted by others, or never added.
    already_gone: int = 0
    #: Not deleted, or perhaps another's.
    left: int = 0
    #: Some of those left: {"dn": …, "reason": …}.
    named: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    #: URI -> operation -> number that the clean-up cost that server.
    control_operations: dict[str, Counter[str]] = field(default_factory=dict)
    error: str | None = None

    def facts(self) -> dict[str, Any]:
        facts = dataclasses.asdict(self)
        del facts["control_operations"]
        facts["left_entries"] = facts.pop("named")
        return facts | {"seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class _Entry:
    ledger: LedgerFile
    record: LedgerRecord
    dn: str


def clean_up(
    folder: Path,
    progress: Callable[[int], None] = lambda left: None,
    *,
    resolve_anew: bool = False,
) -> CleanUpReport:
    """Remove what the run left, and the folder when nothing is left.

    The caller holds the folder's lock. `progress` gets the number of entries left,
    about once a second; a TimeoutError of it ends the clean-up, and so does a server
    that cannot be used (`error`). StoreError: the folder is damaged. `resolve_anew`: do
    not use the addresses that the run found.
    """
    begun_s = time.monotonic()
    report = CleanUpReport()
    plan = read_plan(folder, resolve_anew=resolve_anew)
    with contextlib.ExitStack() as stack:
        work: list[tuple[CleanUpStream, list[_Entry]]] = []
        for number, paths in ledgers_to_clean(folder, plan).items():
            ledgers = [stack.enter_context(LedgerFile(path)) for path in paths]
            entries = [
                _Entry(ledger, record, record.dn.decode("utf-8", "replace"))
                for ledger in ledgers
                for record in ledger.records()
                if record.state in LEFT
            ]
            report.entries += len(entries)
            if entries:
                work.append((plan.streams[number], entries))
        cleaner = _Cleaner(plan, report, progress)
        try:
            for stream, entries in work:
                cleaner.clean(stream, entries)
        except TimeoutError as error:
            report.error = str(error)
    report.left = report.entries - report.deleted - report.already_gone
    report.seconds = time.monotonic() - begun_s
    if not report.left:
        shutil.rmtree(folder)
    return report


def depth(dn: str) -> int:
    """Number of RDNs; 0 for what is no DN."""
    return len(str2dn(dn)) if is_dn(dn) else 0


class _Unusable(Exception):
    """The connection is gone."""


class _Cleaner:
    def __init__(
        self, plan: CleanUpPlan, report: CleanUpReport, progress: Callable[[int], None]
    ) -> None:
        self._plan = plan
        self._report = report
        self._progress = progress
        self._told_s = time.monotonic()
        self._done: set[int] = set()

    def clean(self, stream: CleanUpStream, entries: list[_Entry]) -> None:
        """Delete them from each of the role's servers in turn."""
        reasons: dict[int, str] = {}
        for uri in stream.uris:
            if not entries:
                return
            try:
                self._clean_server(uri, stream, entries, reasons)
            except LdapSlamError as error:
                _log.error("clean-up: %s", error)
                self._report.error = str(error)
            entries = [entry for entry in entries if id(entry) not in self._done]
        for entry in entries:
            reason = reasons.get(id(entry), self._report.error or _GONE)
            if reason == _GONE:
                entry.ledger.mark_gone(entry.record)
                self._report.already_gone += 1
            elif len(self._report.named) < _NAMED:
                self._report.named.append({"dn": entry.dn, "reason": reason})

    def _clean_server(
        self,
        uri: str,
        stream: CleanUpStream,
        entries: list[_Entry],
        reasons: dict[int, str],
    ) -> None:
        """Delete the entries there; `reasons` gets why one was not."""
        levels: dict[int, list[_Entry]] = {}
        for entry in entries:
            levels.setdefault(depth(entry.dn), []).append(entry)
        server = _Server(uri, stream, self._plan, self._count)
        try:
            # children first
            for level in sorted(levels, reverse=True):
                for begin in range(0, len(levels[level]), _BATCH):
                    batch = levels[level][begin : begin + _BATCH]
                    server.delete(batch, self._deleted)
                    self._tell()
        finally:
            server.close()
            for number, reason in server.reasons.items():
                # a refusal says more than the entry's absence elsewhere
                if reason != _GONE or number not in reasons:
                    reasons[number] = reason

    def _deleted(self, entry: _Entry) -> None:
        entry.ledger.mark_gone(entry.record)
        self._done.add(id(entry))
        self._report.deleted += 1
        self._tell()

    def _tell(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _PROGRESS_S:
            self._told_s = now_s
            done = self._report.deleted + self._report.already_gone
            self._progress(self._report.entries - done)

    def _count(self, uri: str, kind: str) -> None:
        self._report.control_operations.setdefault(uri, Counter())[kind] += 1


_GONE = "gone"


class _Server:
    """Deletes on one server, over one connection after another."""

    def __init__(
        self,
        uri: str,
        stream: CleanUpStream,
        run: CleanUpPlan,
        count: Callable[[str, str], None],
    ) -> None:
        self._uri = uri
        self._access = stream.connection.resolved()
        self._run = run
        self._is_later = time.time() > run.ended_s + LATE_ADDS_S
        self._count = count
        self._connection: Any = None
        self.reasons: dict[int, str] = {}

    def delete(self, entries: list[_Entry], deleted: Callable[[_Entry], None]) -> None:
        """Delete entries of one depth; doubtful ones are looked up first."""
        known = [entry for entry in entries if entry.record.state is State.ADDED]
        doubtful = [entry for entry in entries if entry.record.state in IN_DOUBT]
        if self._is_later:
            known, doubtful = [], known + doubtful
        doubtful = self._insist(doubtful, self._look_up)
        self._insist(known + doubtful, lambda batch: self._delete(batch, deleted))

    def _insist(
        self,
        entries: list[_Entry],
        work: Callable[[list[_Entry]], list[_Entry]],
    ) -> list[_Entry]:
        """Repeat `work` over lost connections, and collect what it returns. `work`
        removes from its list the entries that are done."""
        results: list[_Entry] = []
        trouble: str | None = None
        for attempt in range(_ATTEMPTS):
            if not entries:
                return results
            if attempt:
                time.sleep(_PAUSE_S * 2**attempt)
            try:
                self._connect()
                results += work(entries)
            except _Unusable as error:
                trouble = str(error)
                _log.warning("clean-up: %s: %s", self._uri, trouble)
                self.close()
        if entries and trouble is not None:
            raise TargetUnreachable(self._uri, f"{trouble}, {_ATTEMPTS} times")
        return results

    def _connect(self) -> None:
        if self._connection is not None:
            return
        try:
            self._connection = connect(
                self._uri,
                self._access,
                note_request=lambda kind: self._count(self._uri, kind),
            )
        except TargetUnreachable as error:
            raise _Unusable(error.detail) from error

    def _delete(
        self, entries: list[_Entry], deleted: Callable[[_Entry], None]
    ) -> list[_Entry]:
        def send(entry: _Entry) -> int:
            self._count(self._uri, "delete")
            return int(self._connection.delete_ext(entry.dn))

        retried = []
        try:
            for entry, _, error in self._pipelined(entries, send):
                if error is None:
                    deleted(entry)
                    self.reasons.pop(id(entry), None)
                    continue
                self.reasons[id(entry)] = _reason(error)
                if result_code_of(error) in _TRY_AGAIN:
                    retried.append(entry)
        finally:
            entries += retried
        return []

    def _look_up(self, entries: list[_Entry]) -> list[_Entry]:
        """The entries that are the run's."""

        def send(entry: _Entry) -> int:
            self._count(self._uri, "search")
            return int(
                self._connection.search_ext(
                    entry.dn,
                    ldap.SCOPE_BASE,
                    "(objectClass=*)",
                    ["createTimestamp", "creatorsName"],
                )
            )

        has_doubt = any(entry.record.state in IN_DOUBT for entry in entries)
        identity = self._identity() if has_doubt else ""
        own: list[_Entry] = []
        for entry, messages, error in self._pipelined(entries, send):
            if error is not None:
                self.reasons[id(entry)] = _reason(error)
                continue
            found = [attributes for dn, attributes in messages if dn is not None]
            reason: str | None = _GONE
            if found:
                is_in_doubt = entry.record.state in IN_DOUBT
                reason = self._not_ours(found[0], identity if is_in_doubt else None)
            if reason is None:
                own.append(entry)
            else:
                self.reasons[id(entry)] = reason
        return own

    def _identity(self) -> str:
        """The DN as which the server knows us, and the run's operations."""
        self._count(self._uri, "extended")
        try:
            return str(self._connection.whoami_s()).removeprefix("dn:")
        except ldap.LDAPError as error:
            if result_code_of(error) < 0:
                raise _Unusable(error_text(error)) from error
            return self._access.bind.dn or ""

    def _not_ours(
        self, attributes: dict[str, list[bytes]], identity: str | None
    ) -> str | None:
        """Why an entry is not the run's; None: it is. Entries not in doubt need no
        `identity`."""
        values = {name.lower(): each for name, each in attributes.items()}
        created = values.get("createtimestamp", [b""])[0].decode("ascii", "replace")
        creator = values.get("creatorsname", [b""])[0].decode("utf-8", "replace")
        created_s = parse_time(created)
        if created_s is None or (identity is not None and not creator):
            return "in doubt: the server does not say when and by whom it was added"
        if created_s < int(self._run.begun_s) - CLOCK_TOLERANCE_S:
            return f"in doubt: it was added before the run, at {created}"
        if created_s > self._run.ended_s + LATE_ADDS_S:
            return f"in doubt: it was added after the run, at {created}"
        if identity is not None and not same_dn(identity, creator):
            return f"in doubt: it was added by {creator!r}"
        return None

    def _pipelined(
        self, entries: list[_Entry], send: Callable[[_Entry], int]
    ) -> Iterator[tuple[_Entry, Any, ldap.LDAPError | None]]:
        """Send for each entry, WINDOW at a time; entry, messages and error of each. An
        entry leaves the list when its response is there."""
        pending: deque[tuple[_Entry, int]] = deque()
        todo = deque(entries)
        entries.clear()
        try:
            while todo or pending:
                while todo and len(pending) < WINDOW:
                    entry = todo.popleft()
                    pending.append((entry, -1))
                    pending[-1] = (entry, self._sent(send, entry))
                entry, message_id = pending[0]
                messages, error = self._result(message_id)
                pending.popleft()
                yield entry, messages, error
        finally:
            entries += [*(entry for entry, _ in pending), *todo]

    def _sent(self, send: Callable[[_Entry], int], entry: _Entry) -> int:
        try:
            return send(entry)
        except ldap.LDAPError as error:
            raise _Unusable(error_text(error)) from error

    def _result(self, message_id: int) -> tuple[Any, ldap.LDAPError | None]:
        try:
            _, messages, _, _ = self._connection.result3(
                message_id, timeout=self._access.connect_timeout_ns / 1e9
            )
        except ldap.LDAPError as error:
            if result_code_of(error) < 0:
                raise _Unusable(error_text(error)) from error
            return None, error
        return messages, None

    def close(self) -> None:
        if self._connection is not None:
            self._count(self._uri, "unbind")
            with contextlib.suppress(ldap.LDAPError):
                self._connection.unbind_s()
            self._connection = None


def _reason(error: ldap.LDAPError) -> str:
    code = result_code_of(error)
    return _GONE if code == _NO_SUCH_OBJECT else f"{error_text(error)} ({code})"


def same_dn(a: str, b: str) -> bool:
    """Equal but for case and spaces: enough for identities of one server."""

    def folded(dn: str) -> Any:
        if not is_dn(dn):
            return dn.lower()
        return [
            sorted(
                (name.lower(), " ".join(value.lower().split()))
                for name, value, _ in rdn
            )
            for rdn in str2dn(dn)
        ]

    return bool(folded(a) == folded(b))


_TELL_S = 2.0

Operations = Mapping[str, Mapping[str, int]]


class RunLedgers:
    """Of one run; without a folder the run adds nothing that is to be removed."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        #: URI -> operation -> number that the clean-up cost that server.
        self.operations: Operations = {}
        self._is_clean = folder is None

    def note_begin(self, begun_s: float) -> None:
        """No request is sent before that moment, in seconds since 1970."""
        if self.folder is not None:
            note_begin(self.folder, begun_s)

    def note_alive(self) -> None:
        if self.folder is not None:
            note_alive(self.folder)

    def clean_up(self, tell: Callable[[int], None]) -> dict[str, Any]:
        """Remove what the run left, once; facts for the manifest. `tell` gets the
        number of entries left every two seconds, on another thread."""
        if self._is_clean or self.folder is None:
            return {}
        self._is_clean = True
        left = 0

        def note(entries: int) -> None:
            nonlocal left
            left = entries

        try:
            with repeated(lambda: tell(left), _TELL_S):
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
            ledgers.clean_up(lambda left: None)


def added(*parts: Operations) -> dict[str, Counter[str]]:
    """URI -> operation -> the sum over the parts."""
    total: dict[str, Counter[str]] = {}
    for part in parts:
        for uri, counts in part.items():
            total.setdefault(uri, Counter()).update(counts)
    return total


def clean_up_aside(folder: Path) -> None:
    """Clean up after a killed engine, on a thread that ends with this process."""
    if folder.exists():
        _log.warning("run %s: its engine was killed: removing its entries", folder.name)
        threading.Thread(
            target=_clean_up_and_say, args=(folder,), name="clean-up", daemon=True
        ).start()


def clean_up_earlier(spool: Path, uris: Collection[str]) -> Operations:
    """Remove what earlier runs of this agent left on these servers; what does not fit
    into the time is left to the next run. What it took, by URI and operation."""
    until_s = time.monotonic() + _EARLIER_S

    def check_time(left: int) -> None:
        if time.monotonic() > until_s:
            raise TimeoutError(f"no time is left for {left} entries")

    operations: dict[str, Counter[str]] = {}
    for folder in folders_left(spool):
        with contextlib.suppress(LdapSlamError):  # `run --cleanup` names the damage
            known = {uri for one in read_plan(folder).streams for uri in one.uris}
            if not known.isdisjoint(uris):
                operations = added(operations, _clean_up_and_say(folder, check_time))
        if time.monotonic() > until_s:  # the first folder gets on in any case
            break
    return operations


def _clean_up_and_say(
    folder: Path, progress: Callable[[int], None] = lambda left: None
) -> Operations:
    name = folder.name
    try:
        with locked(folder):
            report = clean_up(folder, progress, resolve_anew=True)
    except (LdapSlamError, OSError) as error:
        _log.error("run %s: %s", name, error)
        return {}
    gone = report.deleted + report.already_gone
    level = logging.ERROR if report.left else logging.WARNING
    _log.log(level, "run %s: %d entries removed, %d left", name, gone, report.left)
    return report.control_operations
