# SPDX-License-Identifier: Apache-2.0
"""The servers' side of the books: what they counted against what they were sent. Pure.

    server     = counted after the run - counted before it
    difference = server - agents - control - replicated

`agents` is what books.py has, `control` what the observer asked between the two
readings, `replicated` what suppliers sent (replicated.py). Above zero, a difference is
other clients'. Below zero, requests are missing: a request whose
answer never came may never have arrived, and a connection that broke may have taken its
unbind along; what goes beyond that is unexplained.

Servers count by kind and by themselves. So the servers of a role are one account, and
where a server is in two accounts the two are balanced together. What one server of an
account does not say is unknown of the account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldapslam.jobs.model import PYTHON_KIND
from ldapslam.reports.collect.replicated import WRITES, explained, sent_to
from ldapslam.reports.collect.totals import Collected
from ldapslam.reports.rules.books import Books, accounts_of
from ldapslam.results.records import RunRecord

_UNANSWERED = ("timed_out", "unresolved")
#: Of `kind` in an observation: neither slapd nor 389-DS.
_WITHOUT_COUNTS = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of request of one account."""

    agents: int
    control: int
    #: None: not known.
    server: int | None
    #: Requests that may have been lost on their way.
    unanswered: int
    #: Changes that a supplier sent as such requests.
    replicated: int = 0

    @property
    def difference(self) -> int | None:
        if self.server is None:
            return None
        return self.server - self.agents - self.control - self.replicated

    @property
    def others(self) -> int:
        """Requests that nobody of the run has sent."""
        return max(0, self.difference or 0)

    @property
    def missing(self) -> int:
        """Requests that the server should have counted."""
        return max(0, -(self.difference or 0) - self.unanswered)


@dataclass(frozen=True, slots=True)
class Account:
    """The books of one server, or of servers that cannot be told apart."""

    uris: tuple[str, ...]
    #: Kind -> line, in the order of kinds.
    lines: Mapping[str, Line]
    #: Why its servers' counts are not known; empty when some are.
    unknown: str


def balance(run: RunRecord, books: Books, collected: Collected) -> dict[str, Account]:
    """Account -> its balance, for all accounts of a run that watched its servers; the
    name of several that belong together is 'A + B'."""
    observations: Mapping[str, Any] = run.manifest.get("observations") or {}
    if not observations:
        return {}
    servers = _servers(run, books, observations)
    unanswered = _unanswered(run, collected)
    sent = sent_to(observations)
    accounts = {
        " + ".join(names): _account(uris, names, books, observations, unanswered)
        for names, uris in _components(servers)
    }
    return {
        name: _with_replicated(account, sum(sent[uri] for uri in account.uris))
        for name, account in accounts.items()
    }


def unread(
    run: RunRecord, observer_failures: Sequence[str], *, has_limit: bool
) -> list[str]:
    """Why servers' counts are not known that the job asks for: those of directories
    that it monitors; with a limit on the books, of all that were observed.

    A server of a kind that has no counts is none of them, unless there is a limit.
    """
    observations: Mapping[str, Any] = run.manifest.get("observations") or {}
    asked = [*run.plan.get("counted", ()), *(observations if has_limit else ())]
    if has_limit and not asked:
        return ["no server was watched", *observer_failures]
    reasons = []
    for uri in dict.fromkeys(asked):
        reason = _why_unread(uri, observations)
        has_counts = (observations.get(uri) or {}).get("kind") != _WITHOUT_COUNTS
        if reason and (has_limit or has_counts):
            reasons.append(reason if uri in reason else f"{uri}: {reason}")
    return [*reasons, *observer_failures] if reasons else []


def restarted(run: RunRecord) -> list[str]:
    """URIs of servers that began to count anew between the readings."""
    observations: Mapping[str, Any] = run.manifest.get("observations") or {}
    return [uri for uri, one in observations.items() if _has_restarted(one)]


def _servers(
    run: RunRecord, books: Books, observations: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """Account -> URIs; a watched server that was sent no load has its own."""
    streams = {stream["name"]: stream for stream in run.plan.get("streams", ())}
    servers = {
        account: tuple(streams[name].get("uris", ()))
        for name, account in accounts_of(streams).items()
    }
    known = {uri for uris in servers.values() for uri in uris}
    others = [uri for uri in (*books, *observations) if uri not in {*known, *servers}]
    return servers | {uri: (uri,) for uri in others}


def _components(
    servers: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Accounts that have a server in common, and all their servers."""
    left = dict(servers)
    while left:
        name = next(iter(left))
        names, uris = [name], dict.fromkeys(left.pop(name))
        while more := [one for one in left if uris.keys() & set(left[one])]:
            for one in more:
                names.append(one)
                uris.update(dict.fromkeys(left.pop(one)))
        yield tuple(names), tuple(uris)


def _account(
    uris: Sequence[str],
    names: Sequence[str],
    books: Books,
    observations: Mapping[str, Any],
    unanswered: Mapping[str, Counter[str]],
) -> Account:
    agents: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for name in names:
        agents.update(books.get(name, {}))
        lost.update(unanswered.get(name, {}))
    control: Counter[str] = Counter()
    for uri in uris:
        control.update(observations.get(uri, {}).get("control_operations") or {})
    unknown = _why_unknown(uris, observations)
    rises = [] if unknown else [_rise(observations[uri]) for uri in uris]
    counted = {
        kind: None if None in values else sum(value or 0 for value in values)
        for kind in sorted({kind for rise in rises for kind in rise})
        if (values := [rise.get(kind) for rise in rises])
    }
    kinds = sorted({*agents, *control, *(kind for kind, n in counted.items() if n)})
    return Account(
        uris=tuple(uris),
        lines={
            kind: Line(
                agents[kind],
                control[kind],
                counted.get(kind),
                # of an operation of a class nobody knows which request was lost
                lost[kind] + lost[PYTHON_KIND],
            )
            for kind in kinds
        },
        unknown=unknown,
    )


def _with_replicated(account: Account, sent: int) -> Account:
    surplus = {
        kind: line.difference for kind, line in account.lines.items() if kind in WRITES
    }
    replicated = explained(surplus, sent)
    return replace(
        account,
        lines={
            kind: replace(line, replicated=replicated.get(kind, 0))
            for kind, line in account.lines.items()
        },
    )


def _why_unknown(uris: Sequence[str], observations: Mapping[str, Any]) -> str:
    for uri in uris:
        if reason := _why_unread(uri, observations):
            return reason
        if _has_restarted(observations[uri]):
            return f"{uri} was started anew during the run"
    return ""


def _why_unread(uri: str, observations: Mapping[str, Any]) -> str:
    one = observations.get(uri)
    if one is None:
        return f"{uri} was not watched"
    if failure := one.get("failure"):
        return str(failure)
    if not all(_operations(one, when) for when in ("before", "after")):
        return f"{uri} did not say what it counted"
    return ""


def _rise(observation: Mapping[str, Any]) -> dict[str, int | None]:
    before = _operations(observation, "before")
    after = _operations(observation, "after")
    return {
        kind: None if now is None or before.get(kind) is None else now - before[kind]
        for kind, now in after.items()
    }


def _has_restarted(observation: Mapping[str, Any]) -> bool:
    starts = [
        (observation.get(when) or {}).get("started") for when in ("before", "after")
    ]
    if None not in starts and starts[0] != starts[1]:
        return True
    return any((rise or 0) < 0 for rise in _rise(observation).values())


def _operations(observation: Mapping[str, Any], when: str) -> Mapping[str, Any]:
    """Empty where nothing was read."""
    operations = (observation.get(when) or {}).get("operations") or {}
    return operations if any(one is not None for one in operations.values()) else {}


def _unanswered(run: RunRecord, collected: Collected) -> dict[str, Counter[str]]:
    """Account -> kind -> requests whose answer never came."""
    streams = {stream["name"]: stream for stream in run.plan.get("streams", ())}
    accounts = accounts_of(streams)
    found: dict[str, Counter[str]] = {}
    for (stream, name), totals in collected.operations.items():
        if stream not in streams:
            continue
        kinds = {one["name"]: one["kind"] for one in streams[stream]["operations"]}
        of_account = found.setdefault(accounts[stream], Counter())
        number = sum(totals.whole[counter] for counter in _UNANSWERED)
        of_account[kinds.get(name, "")] += number
        if kinds.get(name) != "unbind":
            of_account["unbind"] += number
    for stream, of_stream in collected.streams.items():
        if stream in streams:
            found.setdefault(accounts[stream], Counter())["unbind"] += (
                of_stream.counters["disconnects"]
            )
    return found
