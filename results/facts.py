# SPDX-License-Identifier: Apache-2.0
"""The facts of a run's agents and monitors, and the run's manifest.

Each class has all names that a fact may have, with its type and its default. The same
classes check what agents report, make the JSON documents of the store and of
result.json, and read them again. A document has only the facts that were set: `updated`
and the store leave the other facts as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ldapslam.base.errors import StoreRefused

#: A JSON object of a server, a host, an error or a user's class, with names of its own.
Said = Mapping[str, JsonValue]

#: A counter of 64 bits.
_MOST = (1 << 64) - 1
Count = Annotated[int, Field(ge=0, le=_MOST)]
Amount = Annotated[float, Field(ge=0, lt=1e18)]
#: Kind of operation -> number.
Counts = Mapping[str, Count]


class Facts(BaseModel):
    """Facts that belong together; no other names, no other types."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True
    )

    def updated(self, news: Facts) -> Self:
        """Return these facts with the facts that are set in `news` in their place."""
        return self.model_copy(
            update={name: getattr(news, name) for name in news.model_fields_set}
        )

    def document(self) -> dict[str, JsonValue]:
        """Return the facts that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def parsed(cls, document: object) -> Self:
        """Return the facts of JSON values; raise ValidationError."""
        # half a character is no text
        text = json.dumps(document, ensure_ascii=False).encode(errors="replace")
        return cls.model_validate_json(text)

    @classmethod
    def stored(cls, document: object) -> Self:
        """The same of the store's values; raise StoreRefused."""
        try:
            return cls.parsed(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise StoreRefused(
                f"a run's facts are not those of this ldapslam: {place}: {first['msg']}"
            ) from error


class ServerIdentity(Facts):
    """What agents found out about a server; empty: it does not say."""

    vendor_name: str = ""
    vendor_version: str = ""
    #: Of slapd's monitor.
    monitor_version: str = ""
    naming_contexts: tuple[str, ...] = ()
    #: IP addresses, or the path of its socket.
    addresses: tuple[str, ...] = ()


class Population(Facts):
    """The data set that a server was found to hold."""

    fingerprint: str
    entries: Count
    base: str
    #: Entries that were looked for.
    sampled: Count


class Target(ServerIdentity):
    """A server as an agent's load uses it."""

    uri: str
    bind_dn: str | None = None
    tls: bool = False
    supported_control: tuple[str, ...] = ()
    supported_extension: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    supported_ldap_version: tuple[str, ...] = ()
    supported_sasl_mechanisms: tuple[str, ...] = ()
    monitor_context: str = ""
    population: Population | None = None
    #: What it took to ask it.
    control_operations: Counts = {}

    @property
    def identity(self) -> ServerIdentity:
        known = self.document()
        names = ServerIdentity.model_fields.keys() & known
        return ServerIdentity.parsed({name: known[name] for name in names})


class SkippedRequests(Facts):
    """Requests of a log that a replay leaves out."""

    operation: str
    reason: str
    count: Count


class Replay(Facts):
    """What a replay sends of its log."""

    #: Kind -> number; unbinds are not among them.
    requests: Counts = {}
    #: With unbinds: the stream ends when all are sent.
    count: Count
    sessions: Count = 0
    connections: Count = 0
    #: Kind -> result codes in the log that are no success.
    expected_codes: Mapping[str, tuple[int, ...]] = {}
    skipped: tuple[SkippedRequests, ...] = ()


class LeftEntry(Facts):
    """An entry that a clean-up could not remove."""

    dn: str = ""
    reason: str = ""


class CleanUp(Facts):
    """What a clean-up removed; without numbers where it could not begin."""

    entries: Count | None = None
    deleted: Count | None = None
    #: Deleted by others, or never added.
    already_gone: Count | None = None
    #: Not deleted, or perhaps another's.
    left: Count | None = None
    left_entries: tuple[LeftEntry, ...] = ()
    seconds: float | None = None
    error: str | None = None
    #: Folder of the ledgers, on the agent's host.
    folder: str = ""

    @property
    def has_left_entries(self) -> bool:
        """Are entries left, or may be?"""
        return bool(self.left or self.error)


class ReportedFacts(Facts):
    """The facts that an agent reports."""

    host: Said = {}
    shares_host_with_target: bool = False
    targets: tuple[Target, ...] = ()
    #: URI -> what preflight and clean-up of earlier runs took.
    control_operations: Mapping[str, Counts] = {}
    #: URI -> what Python classes and the run's own clean-up took.
    later_operations: Mapping[str, Counts] = {}
    #: Stream -> its replay.
    replays: Mapping[str, Replay] = {}
    clean_up: CleanUp | None = None
    #: Kind -> what users' classes noted.
    notes: Mapping[str, tuple[Said, ...]] = {}
    #: Stream -> its Python class.
    python_streams: Mapping[str, str] = {}
    #: URI -> requests of Python classes.
    python_requests: Mapping[str, Counts] = {}
    #: Stream -> operation -> result codes that the class expected.
    python_expected_codes: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
    workers: Count = 0
    connections: Count = 0
    libldap: str = ""
    tls: str = ""
    #: Of streams of the native engine.
    kernel_stamps: bool | None = None
    realtime: bool | None = None


class AgentFacts(ReportedFacts):
    """All that is known of an agent: what it reports, and what the coordinator found
    out itself."""

    epoch: Count = 0
    build: str = ""
    attempt: Count = 0
    #: ended: its monitors have said their last word.
    observer: str = ""
    #: How far its part has come (coordinator/runs/run.py); empty: not known.
    part: str = ""
    start_error_us: float | None = None
    clock_offset_us: float | None = None
    clock_offset_bound_us: float | None = None
    #: From T0 to the end, where the clock was not sampled.
    clock_drift_us: float = 0.0


class MonitorFacts(Facts):
    """What a monitor is about, and what it found there."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    #: directory, entry, host, process or log.
    kind: str = ""
    #: Role -> URIs of its servers.
    serves: Mapping[str, tuple[str, ...]] = {}
    #: Known of hosts.
    boot_id: str | None = None
    kernel: str | None = None
    #: Known of directories.
    server: str | None = None
    version: str | None = None
    #: Why it could not begin.
    failure: str = ""


class Reading(Facts):
    """What a server had counted at one time."""

    #: Kind -> requests since its start; None: it does not say.
    operations: Mapping[str, Count | None] = {}
    #: 'host:port' of a replica -> changes sent to it.
    sent: Counts = {}
    #: When it started, in its words.
    started: str | None = None

    @property
    def known_operations(self) -> Mapping[str, int | None]:
        """The operations; empty where the server says nothing of any."""
        is_known = any(one is not None for one in self.operations.values())
        return self.operations if is_known else {}


class Observation(Facts):
    """What a monitor read of a server before and after the load."""

    #: slapd, 389-ds or other.
    kind: str = ""
    #: Its version and settings (directory/facts.py); None: they were not read.
    facts: Said | None = None
    before: Reading = Reading()
    after: Reading = Reading()
    #: What the monitor asked between the two.
    control_operations: Counts = {}
    failure: str = ""


class ReplicatedTree(Facts):
    """A suffix after the load."""

    suffix: str
    converged: bool
    #: None: not in time.
    after_s: float | None
    #: Server -> source of changes -> its last change.
    states: Mapping[str, Mapping[str, str]]
    #: Server -> sources of changes that it lacks.
    behind: Mapping[str, tuple[str, ...]]
    #: Sources that were left aside.
    stale: tuple[str, ...] = ()


class EntryDifference(Facts):
    """A difference of an entry from the first server's."""

    server: str
    dn: str
    difference: Literal["missing", "extra", "different"]
    attributes: tuple[str, ...]


class ReplicatedContent(Facts):
    """The entries of all servers, compared."""

    sample: Count | None
    compared: Count
    entries: Counts
    difference_count: Count
    differences: tuple[EntryDifference, ...]


class ReplicationFacts(Facts):
    """What was found of replication after the load (directory/replication.py), or why
    it could not be checked."""

    failure: str = ""
    #: The others are compared with the first.
    servers: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    within_s: float = 0.0
    converged: bool = False
    trees: tuple[ReplicatedTree, ...] = ()
    content: ReplicatedContent | None = None

    @property
    def first_server(self) -> str:
        return self.servers[0] if self.servers else ""


class ObserverCost(Facts):
    """What monitors took of their hosts."""

    cpu_s: float


class Observed(Facts):
    """What a monitor reports."""

    #: URI -> what was read there.
    observations: Mapping[str, Observation] = {}
    replication: ReplicationFacts | None = None
    #: The sum over all monitors.
    observer_cost: ObserverCost | None = None


class Start(Facts):
    """T0, in CLOCK_MONOTONIC of the coordinator's host since a boot."""

    mono_ns: int
    boot_id: str


class EndingFacts(Facts):
    """The end that a run comes to."""

    state: str = "finished"
    detail: str = ""
    failure: Said | None = None
    #: When the drain began, since T0.
    drained_ns: int | None = None


class Manifest(Observed):
    """What it takes to know, and to repeat, what was run."""

    ldapslam: str = ""
    job_file: str = ""
    overrides: tuple[str, ...] = ()
    #: Name -> SHA-256.
    files: Mapping[str, str] = {}
    #: What the servers were made of, where they are a lab's.
    lab: Mapping[str, str] = {}
    coordinator: Said = {}
    #: By URI.
    servers: Mapping[str, ServerIdentity] = {}
    #: URI -> requests that are no load.
    control_operations: Mapping[str, Counts] = {}
    #: None: no agent was told.
    t0: Start | None = None
    #: None: the end has not begun.
    ending: EndingFacts | None = None
    #: When coordinators resumed it.
    adopted: tuple[str, ...] = ()
    #: Why it failed.
    failure: Said | None = None
