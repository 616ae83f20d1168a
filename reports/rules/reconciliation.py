# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of agents' requests with the counts of servers. Pure.

It covers all that a server's own monitor counts: the load of every phase, the binds and
StartTLS of set-ups, unbinds, and the requests of pre-flight and clean-up. Agents count
by URI, as the job has it; what Python classes asked is in their control operations.

    server     = counted after the run - counted before it
    difference = server - sent - control - replicated

`control` is what the monitor asked between the two readings, `replicated` what
suppliers sent. Above zero, a difference is other clients'. Below zero, requests are
missing: a request without an answer may never have arrived, and a connection that
broke may have taken its unbind along; what goes beyond that is unexplained.

Suppliers of 389-DS say how many changes they have sent to each replica, not of which
kinds; a replica counts them by kind among all that it was asked. Where the surplus of
a replica's writes is just what suppliers say they have sent, that explains it, kind by
kind. Where it is not, the senders of its writes are not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ldapslam.base.uri import DEFAULT_PORTS, canonical_host
from ldapslam.jobs.fields.thresholds import PYTHON_KIND
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.totals import Collected, StreamTotals, unanswered
from ldapslam.results.facts import Observation
from ldapslam.results.records import RunRecord

#: URI -> kind of operation -> requests sent.
SentRequests = Mapping[str, Mapping[str, int]]

#: Counter of a stream's connections -> kind.
_SET_UP = {"binds": "bind", "extended": "extended", "unbinds": "unbind"}


def sent_requests(run: RunRecord, collected: Collected) -> SentRequests:
    """Kinds in the order of their names; a kind never sent is left out."""
    native = [one for one in run.plan.streams if one.engine == "native"]
    sent = {uri: Counter[str]() for one in run.plan.streams for uri in one.uris}
    for uri, kind, counts in _counts(native, collected):
        # an engine that does not count requests sends one for each operation
        sent[uri][kind] += counts["requests"] or counts["sent"]
        for counter, of_set_up in _SET_UP.items():
            sent[uri][of_set_up] += counts[counter]
    for uri, asked in run.manifest.control_operations.items():
        sent.setdefault(uri, Counter()).update(asked)
    return {
        uri: {kind: by_kind[kind] for kind in sorted(by_kind) if by_kind[kind]}
        for uri, by_kind in sent.items()
    }


def _counts(
    streams: Iterable[PlannedStream], collected: Collected
) -> Iterator[tuple[str, str, Counter[str]]]:
    """Yield server, kind and counters of each operation; of each stream's connections,
    without a kind. Those of a Python class may be of any of its servers."""
    for stream in streams:
        connections = collected.streams.get(stream.name, StreamTotals())
        parts: list[tuple[str, Counter[str], Mapping[str, Counter[str]]]]
        parts = [("", connections.counters, connections.servers)]
        for (name, operation), totals in collected.operations.items():
            if name == stream.name:
                of = {uri: one.whole for uri, one in totals.servers.items()}
                parts.append((stream.operation(operation).kind, totals.whole, of))
        for kind, whole, servers in parts:
            for uri in stream.uris:
                is_of_all = stream.engine == "python" or len(stream.uris) == 1
                yield uri, kind, whole if is_of_all else servers.get(uri, Counter())


#: Of `kind` in an observation: neither slapd nor 389-DS.
_WITHOUT_COUNTS = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of request to one server, or to all of a role."""

    #: By agents.
    sent: int
    control: int
    #: None: not known.
    server: int | None
    #: Requests that may have been lost on their way.
    unanswered: int
    #: Changes that a supplier sent as such requests.
    replicated: int = 0

    def __add__(self, other: Line) -> Line:
        is_known = self.server is not None and other.server is not None
        return Line(
            self.sent + other.sent,
            self.control + other.control,
            (self.server or 0) + (other.server or 0) if is_known else None,
            self.unanswered + other.unanswered,
            self.replicated + other.replicated,
        )

    @property
    def counted(self) -> int | None:
        """What the server counted of the run and of others."""
        if self.server is None:
            return None
        return self.server - self.control - self.replicated

    @property
    def difference(self) -> int | None:
        return None if self.counted is None else self.counted - self.sent

    @property
    def per_sent(self) -> float | None:
        """Requests of the run that the server counted, for each that agents sent."""
        if self.counted is None or not self.sent:
            return None
        return self.counted / self.sent

    @property
    def others(self) -> int:
        """Requests that the run did not send."""
        return max(0, self.difference or 0)

    @property
    def missing(self) -> int:
        """Requests that the server should have counted."""
        return max(0, -(self.difference or 0) - self.unanswered)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The requests to one server."""

    #: Kind -> line, in the order of kinds.
    lines: Mapping[str, Line]
    #: Why the server's counts are not known; empty when some are.
    unknown: str = ""

    def line(self, kind: str) -> Line:
        none = None if self.unknown else 0
        return self.lines.get(kind, Line(0, 0, none, 0))


def reconcile(
    run: RunRecord, sent: SentRequests, collected: Collected
) -> dict[str, Reconciliation]:
    """URI -> its requests, for all servers of a run that watched any."""
    observations = run.manifest.observations
    if not observations:
        return {}
    lost = _unanswered(run, collected)
    replicated = sent_to(observations)
    return {
        uri: _reconciliation(
            uri, sent.get(uri, {}), observations, lost[uri], replicated[uri]
        )
        for uri in dict.fromkeys((*sent, *observations))
    }


def unread(
    run: RunRecord, observer_failures: Sequence[str], *, has_limit: bool
) -> list[str]:
    """Why servers' counts are not known that the job asks for: those of directories
    that it monitors; with a limit on requests of others, of all that were observed.

    A server of a kind that has no counts is none of them, unless there is a limit.
    """
    observations = run.manifest.observations
    asked = [*run.plan.counted, *(observations if has_limit else ())]
    if has_limit and not asked:
        return ["no server was watched", *observer_failures]
    reasons = []
    for uri in dict.fromkeys(asked):
        reason = _why_unread(uri, observations)
        kind = observations.get(uri, Observation()).kind
        has_counts = kind != _WITHOUT_COUNTS
        if reason and (has_limit or has_counts):
            reasons.append(reason if uri in reason else f"{uri}: {reason}")
    return [*reasons, *observer_failures] if reasons else []


def restarted(run: RunRecord) -> list[str]:
    """URIs of servers that were restarted between the readings."""
    observations = run.manifest.observations
    return [uri for uri, one in observations.items() if _has_restarted(one)]


def _reconciliation(
    uri: str,
    sent: Mapping[str, int],
    observations: Mapping[str, Observation],
    lost: Mapping[str, int],
    replicated: int,
) -> Reconciliation:
    """`lost`: kind -> requests without a response."""
    observation = observations.get(uri, Observation())
    control, unknown = observation.control_operations, _why_unread(uri, observations)
    if not unknown and _has_restarted(observation):
        unknown = f"{uri} was restarted during the run"
    counted = {} if unknown else _rise(observation)
    lines = {
        kind: Line(
            sent.get(kind, 0),
            control.get(kind, 0),
            counted.get(kind),
            # which request of a Python class was lost is not known
            lost[kind] + lost[PYTHON_KIND],
        )
        for kind in sorted(
            {*sent, *control, *(kind for kind in counted if counted[kind])}
        )
    }
    surplus = {kind: line.difference for kind, line in lines.items() if kind in WRITES}
    for kind, number in explained(surplus, replicated).items():
        lines[kind] = replace(lines[kind], replicated=number)
    return Reconciliation(lines, unknown)


def _why_unread(uri: str, observations: Mapping[str, Observation]) -> str:
    one = observations.get(uri)
    if one is None:
        return f"no monitor read what {uri} counts"
    if one.failure:
        return one.failure
    if not (one.before.known_operations and one.after.known_operations):
        return f"{uri} gave no counts"
    return ""


def _rise(observation: Observation) -> dict[str, int | None]:
    before = observation.before.known_operations
    return {
        kind: None if now is None or (then := before.get(kind)) is None else now - then
        for kind, now in observation.after.known_operations.items()
    }


def _has_restarted(observation: Observation) -> bool:
    starts = {observation.before.started, observation.after.started}
    if len(starts) > 1 and None not in starts:
        return True
    return any((rise or 0) < 0 for rise in _rise(observation).values())


def _unanswered(run: RunRecord, collected: Collected) -> dict[str, Counter[str]]:
    """Return URI -> kind -> requests without a response."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for uri, kind, counts in _counts(run.plan.streams, collected):
        number = unanswered(counts)
        found[uri][kind] += number
        found[uri]["unbind"] += number * (kind != "unbind") + counts["disconnects"]
    return found


WRITES = ("add", "delete", "modify", "modify_dn")


def sent_to(observations: Mapping[str, Observation]) -> Counter[str]:
    """URI -> changes that were sent to it between the readings of its suppliers; those
    to a place that several servers may be are left out."""
    sent: Counter[str] = Counter()
    for observation in observations.values():
        for place, total in observation.after.sent.items():
            known = [
                uri
                for uri, one in observations.items()
                if _canonical(place) in _places(uri, one)
            ]
            if len(known) == 1:
                sent[known[0]] += total - observation.before.sent.get(place, 0)
    return sent


def explained(surplus: Mapping[str, int | None], sent: int) -> dict[str, int]:
    """Kind -> how much of its surplus was replicated; `surplus` is that of WRITES."""
    known = {kind: more for kind, more in surplus.items() if more is not None}
    is_whole = len(known) == len(surplus) and sum(known.values()) == sent
    return known if is_whole and min(known.values(), default=0) >= 0 else {}


def _places(uri: str, observation: Observation) -> set[tuple[str, str]]:
    """Hosts and ports by which an agreement may know the server: as the job has them,
    and by its own name and ports. These go with the job's host when its port is one of
    them: the address of a relay or a container has others behind it."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    port = str(parts.port or DEFAULT_PORTS.get(parts.scheme))
    said = (observation.facts or {}).get("settings")
    settings = said if isinstance(said, dict) else {}
    own_ports = [str(settings.get("nsslapd-port", ""))]
    if str(settings.get("nsslapd-security", "")).lower() == "on":
        own_ports.append(str(settings.get("nsslapd-securePort", "")))
    places = {(host, port)}
    if own_name := str(settings.get("nsslapd-localhost", "")):
        places |= {(own_name, one) for one in (port, *own_ports)}
    if port in own_ports:
        places |= {(host, one) for one in own_ports}
    return {_canonical(f"{name}:{number}") for name, number in places if number}


def _canonical(place: str) -> tuple[str, str]:
    host, _, port = place.lower().rpartition(":")
    return canonical_host(host), port
