# SPDX-License-Identifier: Apache-2.0
"""Did replication deliver what was written? Asked once the load has stopped.

First the states (replication_state.py) are read until they are equal on all servers or
the time is up, then the servers' entries are compared (comparison.py), also where the
states are not equal.

Readings are _POLL_S apart, and the time to converge is known no better than that.
Nothing of this is load; all of it is in the servers' `control`, for the reconciliation.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ldapslam.base.errors import TargetError
from ldapslam.directory.comparison import (
    Comparison,
    EntryDifference,
    Tree,
    compare,
    picked,
)
from ldapslam.directory.control_connection import ControlConnection, noted_in
from ldapslam.directory.counts import ServerKind, detect
from ldapslam.directory.entry_digest import (
    differing_attributes,
    is_below,
    normalised_dn,
)
from ldapslam.directory.replication_state import (
    State,
    are_equal,
    behind,
    is_log,
    naming_contexts,
    stale_sources,
    state,
    without,
)
from ldapslam.directory.tree import DirectoryTree
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.monitors import ReplicationCheck

_POLL_S = 0.05
#: Comparisons of two trees while changes arrive.
_COMPARISONS = 3
#: Before the run: clocks of servers differ.
_STALE_S = 3_600.0
_STATE_HINT = (
    "slapd needs contextCSN (the overlay syncprov on suppliers), 389-DS a replica; the "
    "job's bind DN must be allowed to read them"
)


@dataclass(frozen=True, slots=True)
class ReplicationServer:
    """One of the servers that are to hold the same."""

    uri: str
    access: ConnectionSettings
    #: Requests that were sent to it, by kind; added to.
    control: Counter[str]


@dataclass(frozen=True, slots=True)
class _Member:
    connection: ControlConnection
    kind: ServerKind

    @property
    def uri(self) -> str:
        return self.connection.uri


def verify_replication(
    servers: Sequence[ReplicationServer],
    check: ReplicationCheck,
    *,
    load_ended_s: float,
    seed: int,
    begun_utc_s: float = 0.0,
    now_s: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """What was found, as the run's manifest has it; TargetError where it could not be
    checked. `load_ended_s` is on the clock of `now_s`. A source of changes that not all
    servers know, and that had made none for an hour at the run's begin, is left out
    where all content is compared.

    `results.facts.ReplicationFacts` has what the result says: the first server is the
    one that others are compared with; the first few differences of each kind and server
    are named, and `compared` counts the entries of which attributes were compared.
    """
    with _all_opened(servers) as members:
        trees, skipped = _trees(members, check)
        deadline_s = load_ended_s + check.within_ns / 1e9
        stale_utc_s = _stale_utc_s(check, begun_utc_s)
        found = _converge(
            members, trees, load_ended_s, deadline_s, stale_utc_s, now_s, wait
        )
        content = None
        if check.content:
            content = _content(members, _bases(check, trees), check.sample, seed)
    return {
        "servers": [server.uri for server in servers],
        "skipped": skipped,
        "within_s": check.within_ns / 1e9,
        "converged": all(tree["converged"] for tree in found),
        "trees": found,
        "content": content,
    }


def examine_replication(
    servers: Sequence[ReplicationServer], check: ReplicationCheck
) -> dict[str, Any]:
    """What `verify_replication` will read, before a run; TargetError if it cannot.

    servers: [URI, …]
    skipped: [suffix, …]
    trees: [{suffix, converged, behind: {URI: [source, …]}}]       as they are now
    """
    with _all_opened(servers) as members:
        trees, skipped = _trees(members, check)
        states = {suffix: _states(members, suffix) for suffix in trees}
        faults = [
            f"{uri} does not say how far its replication of {suffix!r} is"
            for suffix, of_servers in states.items()
            for uri, found in of_servers.items()
            if not found
        ]
        if check.content:
            faults += [
                f"{member.uri} has no {base!r}, or does not let it be read"
                for base in _bases(check, trees)
                for member in members
                if member.connection.read(base, ["1.1"]) is None
            ]
    stale_utc_s = _stale_utc_s(check, time.time())
    compared = {
        suffix: without(found, stale_sources(found, stale_utc_s))
        for suffix, found in states.items()
    }
    if faults:
        raise TargetError(
            f"replication cannot be verified: {'; '.join(faults)}", hint=_STATE_HINT
        )
    return {
        "servers": [server.uri for server in servers],
        "skipped": skipped,
        "trees": [
            {"suffix": suffix, "converged": are_equal(found), "behind": behind(found)}
            for suffix, found in compared.items()
        ],
    }


@contextmanager
def _all_opened(servers: Sequence[ReplicationServer]) -> Iterator[list[_Member]]:
    if len(servers) < 2:
        raise TargetError(
            "replication needs two servers to compare, the job has "
            f"{len(servers) or 'none'}",
            hint="name the replicas in `targets`",
        )
    with ExitStack() as stack:
        yield [_opened(stack, server) for server in servers]


def _opened(stack: ExitStack, server: ReplicationServer) -> _Member:
    opened = ControlConnection.open(server.uri, server.access, server.control)
    return _Member(stack.enter_context(opened), detect(opened))


def _trees(
    members: Sequence[_Member], check: ReplicationCheck
) -> tuple[list[str], list[str]]:
    """The suffixes that all servers replicate, and those that are skipped: not all
    servers have them, or they are slapd's own logs of changes (slapo-accesslog)."""
    first, *others = members
    contexts = naming_contexts(first.connection)
    if check.base is not None:
        contexts = [one for one in contexts if is_below(check.base, one)]
        if not contexts:
            raise TargetError(
                f"{first.uri}: {check.base!r} lies in none of its trees",
                hint="`verify.replication.base` is an entry that is replicated",
            )
    replicated = [
        suffix
        for suffix in contexts
        if any(state(member.connection, member.kind, suffix) for member in members)
    ]
    trees = replicated
    if check.base is None:
        common = [
            {normalised_dn(one) for one in naming_contexts(other.connection)}
            for other in others
        ]
        trees = [
            suffix
            for suffix in replicated
            if all(normalised_dn(suffix) in one for one in common)
            and not is_log(first.connection, suffix)
        ]
    skipped = [suffix for suffix in replicated if suffix not in trees]
    if trees:
        return trees, skipped
    if skipped:
        raise TargetError(
            f"no tree is replicated to all servers; skipped: {', '.join(skipped)}",
            hint="may the job's bind DN read namingContexts on all of them?",
        )
    what = repr(check.base) if check.base else "any of its suffixes"
    raise TargetError(
        f"{first.uri}: no server says how far replication of {what} is",
        hint=_STATE_HINT,
    )


def _states(members: Sequence[_Member], suffix: str) -> dict[str, State]:
    return {one.uri: state(one.connection, one.kind, suffix) for one in members}


def _bases(check: ReplicationCheck, trees: Sequence[str]) -> Sequence[str]:
    """Where contents are compared."""
    return [check.base] if check.base else trees


def _stale_utc_s(check: ReplicationCheck, begun_utc_s: float) -> float:
    """Sources that ended before this may be left out where all content is compared."""
    is_whole = check.content and check.sample is None and check.base is None
    return begun_utc_s - _STALE_S if is_whole else 0.0


def _converge(
    members: Sequence[_Member],
    trees: Sequence[str],
    load_ended_s: float,
    deadline_s: float,
    stale_utc_s: float,
    now_s: Callable[[], float],
    wait: Callable[[float], None],
) -> list[dict[str, Any]]:
    """Each tree with its last states; one that has converged is not read again."""
    found: dict[str, dict[str, Any]] = {}
    while True:
        for suffix in trees:
            if suffix in found and found[suffix]["converged"]:
                continue
            states = _states(members, suffix)
            stale = stale_sources(states, stale_utc_s)
            compared = without(states, stale)
            converged = are_equal(compared)
            found[suffix] = {
                "suffix": suffix,
                "converged": converged,
                "after_s": max(0.0, now_s() - load_ended_s) if converged else None,
                "states": {uri: dict(one) for uri, one in states.items()},
                "behind": behind(compared),
                "stale": stale,
            }
        left_s = deadline_s - now_s()
        if all(one["converged"] for one in found.values()) or left_s <= 0:
            return list(found.values())
        wait(min(_POLL_S, left_s))


def _content(
    members: Sequence[_Member], bases: Sequence[str], sample: int | None, seed: int
) -> dict[str, Any]:
    first, *others = members
    entries: Counter[str] = Counter({member.uri: 0 for member in members})
    differences: list[dict[str, Any]] = []
    compared = difference_count = 0
    for base in bases:
        for other in others:
            trees = _tree(first, base), _tree(other, base)
            result, named = _compared(*trees, sample, seed)
            # the first one is read again for each comparison, and counts once
            if other is others[0]:
                entries[first.uri] += result.expected.count
            entries[other.uri] += result.found.count
            compared += result.compared
            difference_count += result.missing + result.extra + result.different
            difference_count -= len(result.named) - len(named)
            differences += [
                {
                    "server": other.uri,
                    "dn": one.dn,
                    "difference": one.kind,
                    "attributes": [each.attribute for each in one.attributes],
                }
                for one in named
            ]
    if not entries[first.uri]:
        raise TargetError(
            f"{first.uri}: nothing can be read below {', '.join(map(repr, bases))}",
            hint="may the job's bind DN read the tree?",
        )
    return {
        "sample": sample,
        "compared": compared,
        "entries": dict(entries),
        "difference_count": difference_count,
        "differences": differences,
    }


def _tree(member: _Member, base: str) -> DirectoryTree:
    noted = noted_in(member.connection.control)
    return DirectoryTree(member.connection.ldap, member.uri, base, note_request=noted)


def _compared(
    expected: Tree, found: Tree, sample: int | None, seed: int
) -> tuple[Comparison, list[EntryDifference]]:
    """The comparison, and those of its named differences that are still there when the
    entries are read again: the others were on their way. It is repeated a few times
    where some differences are not named and one of the named was on its way."""
    for _ in range(_COMPARISONS):
        result = compare(expected, found, sample=sample, seed=seed)
        named = _lasting(result.named, expected, found)
        count = result.missing + result.extra + result.different
        if len(named) == len(result.named) or len(result.named) == count:
            break
    return result, named


def _lasting(
    named: Sequence[EntryDifference], expected: Tree, found: Tree
) -> list[EntryDifference]:
    lasting = []
    for dn, left, right in picked([one.dn for one in named], expected, found):
        if left is not None and right is not None:
            attributes = tuple(differing_attributes(left, right))
            if attributes:
                lasting.append(EntryDifference("different", dn, attributes))
        elif left is not None:
            lasting.append(EntryDifference("missing", dn))
        elif right is not None:
            lasting.append(EntryDifference("extra", dn))
    return lasting
