# SPDX-License-Identifier: Apache-2.0
"""Up to which change each server of a replicated tree has all changes.

    slapd    contextCSN of the suffix: one for each server id that has written
    389-DS   the replica update vector (RUV): for each replica id the last CSN; and the
             generation, which servers initialised from one another share

Either becomes a State: source of changes -> text, equal on servers that have the same
changes. CSNs of one source order as texts, the later the greater.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import ldap

from ldapslam.directory.access import parse_time
from ldapslam.directory.control_connection import ControlConnection, texts_of
from ldapslam.directory.counts import ServerKind

#: Source of changes -> CSN of the last one, or the generation.
State = Mapping[str, str]

GENERATION = "generation"

#: RFC draft-chu-ldap-csn: time # count # server id # modification.
_CSN = re.compile(r"[0-9.]+Z#[0-9a-f]+#(?P<server_id>[0-9a-f]+)#[0-9a-f]+")
_RUV_GENERATION = re.compile(r"\{replicageneration\} *(?P<generation>[0-9a-f]+)")
_RUV_ELEMENT = re.compile(
    r"\{replica (?P<replica_id>[0-9]+)[^}]*\} *[0-9a-f]+ +(?P<last>[0-9a-f]+)"
)
#: Where 389-DS keeps the RUV; the server answers with what it has in memory.
_RUV_FILTER = (
    "(&(objectClass=nstombstone)(nsuniqueid=ffffffff-ffffffff-ffffffff-ffffffff))"
)


def naming_contexts(connection: ControlConnection) -> list[str]:
    """The suffixes that the server has; TargetError."""
    return texts_of(connection.read("", ["namingContexts"]), "namingcontexts")


def is_log(connection: ControlConnection, suffix: str) -> bool:
    """Does slapo-accesslog keep its log there? TargetError."""
    classes = texts_of(connection.read(suffix, ["objectClass"]), "objectclass")
    return "auditcontainer" in (one.lower() for one in classes)


def state(connection: ControlConnection, kind: ServerKind, suffix: str) -> State:
    """The state of one tree; empty where the server does not say. TargetError."""
    if kind is ServerKind.SLAPD:
        entry = connection.read(suffix, ["contextCSN"])
        return context_csn_state(texts_of(entry, "contextcsn"))
    if kind is ServerKind.DS389:
        found = connection.search(
            suffix, ldap.SCOPE_SUBTREE, ["nsds50ruv"], _RUV_FILTER
        )
        return ruv_state([text for _, e in found for text in texts_of(e, "nsds50ruv")])
    return {}


def context_csn_state(values: Sequence[str]) -> State:
    """The state in values of contextCSN; other texts are left out."""
    latest: dict[str, str] = {}
    for value in values:
        if match := _CSN.fullmatch(value):
            source = match["server_id"]
            latest[source] = max(value, latest.get(source, value))
    return latest


def ruv_state(values: Sequence[str]) -> State:
    """The state in values of nsds50ruv; a replica that wrote nothing has no CSN."""
    found: dict[str, str] = {}
    for value in values:
        if match := _RUV_GENERATION.match(value):
            found[GENERATION] = match["generation"]
        elif match := _RUV_ELEMENT.match(value):
            found[match["replica_id"]] = match["last"]
    return found


def are_equal(states: Mapping[str, State]) -> bool:
    """Have all servers the same changes? False where one does not say."""
    first, *others = states.values()
    return bool(first) and all(one == first for one in others)


def stale_sources(states: Mapping[str, State], before_utc_s: float) -> list[str]:
    """Sources that only some servers know, with the same last change, older than that
    time: most likely former suppliers. None where a server has no state."""
    stale: list[str] = []
    if not all(states.values()):
        return stale
    for source in sorted({one for state in states.values() for one in state}):
        found = [state.get(source) for state in states.values()]
        last = {csn for csn in found if csn is not None}
        if None in found and len(last) == 1 and source != GENERATION:
            written_s = csn_time_s(last.pop())
            if written_s is not None and written_s < before_utc_s:
                stale.append(source)
    return stale


def without(states: Mapping[str, State], sources: Sequence[str]) -> dict[str, State]:
    """The states, but for these sources."""
    return {
        uri: {source: csn for source, csn in one.items() if source not in sources}
        for uri, one in states.items()
    }


def csn_time_s(csn: str) -> float | None:
    """When the change was made, in s since 1970, by the clock of its server."""
    if "#" in csn:
        return parse_time(csn.partition("#")[0])
    try:
        return float(int(csn[:8], 16))
    except ValueError:
        return None


def behind(states: Mapping[str, State]) -> dict[str, list[str]]:
    """Server -> sources of which it lacks changes that another server has."""
    newest = latest(states.values())
    return {
        uri: lacking
        for uri, one in states.items()
        if (lacking := sorted(s for s, last in newest.items() if one.get(s) != last))
    }


def latest(states: Iterable[State]) -> State:
    """The last change of each source that any of the servers has."""
    found: dict[str, str] = {}
    for one in states:
        for source, last in one.items():
            found[source] = max(last, found.get(source, last))
    return found
