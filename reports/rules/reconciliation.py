# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of agents' requests with the counts of servers. Pure.

It covers all that a server's own monitor counts: the load of every phase, the binds and
StartTLS of set-ups, unbinds, and the requests of pre-flight and clean-up. Agents count
by role, so a role of several servers is one group, named by the role; a single server
is named by its URI, whatever the number of roles that share it.

    server     = counted after the run - counted before it
    difference = server - agents - control - replicated

`control` is what the monitor asked between the two readings, `replicated` what
suppliers sent. Above zero, a difference is other clients'. Below zero, requests are
missing: a request without an answer may never have arrived, and a connection that
broke may have taken its unbind along; what goes beyond that is unexplained.

Servers count by kind and by themselves. So the servers of a role are reconciled
together, and so are two groups that have a server in common. What one server of a group
does not say is unknown of the group.

Suppliers of 389-DS say how many changes they have sent to each replica, not of which
kinds; a replica counts them by kind among all that it was asked. Where the surplus of
a replica's writes is just what suppliers say they have sent, that explains it, kind by
kind. Where it is not, the senders of its writes are not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ldapslam.base.uri import DEFAULT_PORTS, canonical_host
from ldapslam.jobs.fields.thresholds import PYTHON_KIND
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.totals import Collected, OperationTotals, unanswered
from ldapslam.results.facts import Observation
from ldapslam.results.records import RunRecord

#: Group -> kind of operation -> requests sent.
SentRequests = Mapping[str, Mapping[str, int]]

#: Counter of a stream's connections -> kind.
_SET_UP = {"binds": "bind", "extended": "extended", "unbinds": "unbind"}


def sent_requests(run: RunRecord, collected: Collected) -> SentRequests:
    """Kinds in the order of their names; a kind never sent is left out."""
    streams = run.plan.by_stream
    groups = groups_of(streams)
    sent: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for group, kind, totals in _sent_operations(streams, collected):
        # what a Python class asked is in control_operations, by kind
        if kind != PYTHON_KIND:
            # an engine that does not count requests sends one for each operation
            sent[group][kind] += totals.whole["requests"] or totals.whole["sent"]
    for stream, of_stream in collected.streams.items():
        if stream in streams:
            for counter, kind in _SET_UP.items():
                sent[groups[stream]][kind] += of_stream.counters[counter]
    by_uri = {
        uri: groups[name] for name, stream in streams.items() for uri in stream.uris
    }
    for uri, asked in run.manifest.control_operations.items():
        sent[by_uri.get(uri, uri)].update(asked)
    return {
        group: {kind: by_kind[kind] for kind in sorted(by_kind) if by_kind[kind]}
        for group, by_kind in sent.items()
    }


def _sent_operations(
    streams: Mapping[str, PlannedStream], collected: Collected
) -> Iterator[tuple[str, str, OperationTotals]]:
    """Group, kind and totals of each planned operation."""
    groups = groups_of(streams)
    for (stream, name), totals in collected.operations.items():
        if stream in streams:
            yield groups[stream], streams[stream].operation(name).kind, totals


def groups_of(streams: Mapping[str, PlannedStream]) -> dict[str, str]:
    """Stream -> group."""
    return {
        name: uris[0] if len(uris := stream.uris) == 1 else stream.target
        for name, stream in streams.items()
    }


#: Of `kind` in an observation: neither slapd nor 389-DS.
_WITHOUT_COUNTS = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of request of one group."""

    agents: int
    control: int
    #: None: not known.
    server: int | None
    #: Requests that may have been lost on their way.
    unanswered: int
    #: Changes that a supplier sent as such requests.
    replicated: int = 0

    @property
    def counted(self) -> int | None:
        """What the server counted of the run and of others."""
        if self.server is None:
            return None
        return self.server - self.control - self.replicated

    @property
    def difference(self) -> int | None:
        return None if self.counted is None else self.counted - self.agents

    @property
    def per_sent(self) -> float | None:
        """Requests of the run that the server counted, for each that agents sent."""
        if self.counted is None or not self.agents:
            return None
        return self.counted / self.agents

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
    """The requests to one server, or to servers that cannot be distinguished."""

    uris: tuple[str, ...]
    #: Kind -> line, in the order of kinds.
    lines: Mapping[str, Line]
    #: Why its servers' counts are not known; empty when some are.
    unknown: str


def reconcile(
    run: RunRecord, sent: SentRequests, collected: Collected
) -> dict[str, Reconciliation]:
    """Group -> its requests, for all groups of a run that watched its servers; the
    name of several that belong together is 'A + B'."""
    observations = run.manifest.observations
    if not observations:
        return {}
    servers = _servers(run, sent, observations)
    lost = _unanswered(run, collected)
    replicated = sent_to(observations)
    groups = {
        " + ".join(names): _reconciliation(uris, names, sent, observations, lost)
        for names, uris in _components(servers)
    }
    return {
        name: _with_replicated(group, sum(replicated[uri] for uri in group.uris))
        for name, group in groups.items()
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


def _servers(
    run: RunRecord, sent: SentRequests, observations: Mapping[str, Observation]
) -> dict[str, tuple[str, ...]]:
    """Group -> URIs; a watched server that was sent no load has its own."""
    streams = run.plan.by_stream
    servers = {group: streams[name].uris for name, group in groups_of(streams).items()}
    known = {uri for uris in servers.values() for uri in uris}
    others = [uri for uri in (*sent, *observations) if uri not in {*known, *servers}]
    return servers | {uri: (uri,) for uri in others}


def _components(
    servers: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Groups that have a server in common, and all their servers."""
    left = dict(servers)
    while left:
        name = next(iter(left))
        names, uris = [name], dict.fromkeys(left.pop(name))
        while more := [one for one in left if uris.keys() & set(left[one])]:
            for one in more:
                names.append(one)
                uris.update(dict.fromkeys(left.pop(one)))
        yield tuple(names), tuple(uris)


def _reconciliation(
    uris: Sequence[str],
    names: Sequence[str],
    sent: SentRequests,
    observations: Mapping[str, Observation],
    of_groups: Mapping[str, Counter[str]],
) -> Reconciliation:
    """`of_groups`: group -> kind -> requests without a response."""
    agents: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for name in names:
        agents.update(sent.get(name, {}))
        lost.update(of_groups.get(name, {}))
    control: Counter[str] = Counter()
    for uri in uris:
        control.update(observations.get(uri, Observation()).control_operations)
    unknown = _why_unknown(uris, observations)
    rises = [] if unknown else [_rise(observations[uri]) for uri in uris]
    counted = {
        kind: None if None in values else sum(value or 0 for value in values)
        for kind in sorted({kind for rise in rises for kind in rise})
        if (values := [rise.get(kind) for rise in rises])
    }
    kinds = sorted({*agents, *control, *(kind for kind, n in counted.items() if n)})
    return Reconciliation(
        uris=tuple(uris),
        lines={
            kind: Line(
                agents[kind],
                control[kind],
                counted.get(kind),
                # which request of a Python class was lost is not known
                lost[kind] + lost[PYTHON_KIND],
            )
            for kind in kinds
        },
        unknown=unknown,
    )


def _with_replicated(group: Reconciliation, sent: int) -> Reconciliation:
    surplus = {
        kind: line.difference for kind, line in group.lines.items() if kind in WRITES
    }
    replicated = explained(surplus, sent)
    return replace(
        group,
        lines={
            kind: replace(line, replicated=replicated.get(kind, 0))
            for kind, line in group.lines.items()
        },
    )


def _why_unknown(uris: Sequence[str], observations: Mapping[str, Observation]) -> str:
    for uri in uris:
        if reason := _why_unread(uri, observations):
            return reason
        if _has_restarted(observations[uri]):
            return f"{uri} was restarted during the run"
    return ""


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
    """Return group -> kind -> requests without a response."""
    streams = run.plan.by_stream
    groups = groups_of(streams)
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for group, kind, totals in _sent_operations(streams, collected):
        number = unanswered(totals.whole)
        found[group][kind] += number
        if kind != "unbind":
            found[group]["unbind"] += number
    for stream, of_stream in collected.streams.items():
        if stream in streams:
            found[groups[stream]]["unbind"] += of_stream.counters["disconnects"]
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
