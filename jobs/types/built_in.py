# SPDX-License-Identifier: Apache-2.0
"""The job types of this package. Those that drive a stream by a
Python class name it in the entry point group `ldapslam.python_jobs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from ldapslam.base import units
from ldapslam.base.fault import Fault, got
from ldapslam.base.units import Rate
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.result_codes import NAMES, ResultCode
from ldapslam.jobs.fields.sections import (
    NAME_PATTERN,
    Count,
    FileName,
    Flag,
    Found,
    HostFile,
    Kind,
    Name,
    PositiveDuration,
    RateField,
    Section,
    Text,
    checked,
    one_or_more,
    one_or_more_schema,
)
from ldapslam.jobs.fields.texts import AttributeName, AttributeSelector, FilterText
from ldapslam.jobs.fields.texts import Values as AttributeValues
from ldapslam.jobs.requests.dn import check_dn
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import SEQUENCE, ValueSource
from ldapslam.jobs.types.base import JobType, SearchOptions, drop_none


class AuthOptions(SearchOptions):
    """Whom to find, and what to bind with."""

    attributes: list[AttributeSelector] = Field(default=["1.1"])
    """attributes to return; '1.1' is none"""
    password: Text = Field(min_length=1, examples=["password"])
    """the users' password, that of a test population; patterns allowed"""
    expect: list[ResultCode] | None = Field(
        default=None, examples=["[success, invalidCredentials]"]
    )
    """result codes of the bind that are no errors; without it, success"""
    unbind: Flag = False
    """end each login with an unbind and reconnect, so that every search is made as
    the stream's own identity; without it, a search is made as the user who was bound
    before"""


class Auth(JobType[AuthOptions]):
    """Find an entry, then bind as it with a password: SLAMD's and UnboundID's
    authentication rate, OpenDJ's authrate. Two operations are recorded, `search` and
    `bind`, so the time of a login is not mixed of both."""

    name: ClassVar[str] = "auth"
    Options: ClassVar[type[Section]] = AuthOptions

    def expand(self, options: AuthOptions, stream: Mapping[str, Any]) -> dict[str, Any]:
        bind = drop_none(
            {
                "bind": {"dn": "[dn]", "password": options.password},
                "expect": options.expect
                and [NAMES.get(code, code) for code in options.expect],
            }
        )
        steps: list[dict[str, Any]] = [
            {"search": options.search, "capture": "dn"},
            bind,
        ]
        if options.unbind:
            steps.append({"unbind": {}})
        return {"operations": [{"sequence": steps}]}


class SearchModifyOptions(SearchOptions):
    """Which entry to find, and what to replace in it."""

    replace: dict[AttributeName, AttributeValues] = Field(
        min_length=1, examples=["{description: '[random:80]'}"]
    )
    """attribute and its new value or values; patterns allowed"""
    modifies: Annotated[Count, Field(le=1_000)] = 1
    """modifies of the entry after each search"""


class SearchModify(JobType[SearchModifyOptions]):
    """Find an entry and replace attributes of it: UnboundID's search-and-mod-rate. Two
    operations are recorded, `search` and `modify`."""

    name: ClassVar[str] = "search_modify"
    Options: ClassVar[type[Section]] = SearchModifyOptions

    def expand(
        self, options: SearchModifyOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        modify = {"dn": "[dn]", "replace": dict(options.replace)}
        steps = [
            {"search": options.search, "capture": "dn"},
            {"modify": modify, "repeat": options.modifies},
        ]
        return {"operations": [{"sequence": steps}]}


class PrimeOptions(SearchOptions):
    """A search with a range of numbers in its filter."""

    filter: FilterText = Field(examples=["(uid=user.[0:999999])"])
    """which entry; its only pattern is a range of numbers in turn"""

    @property
    def keys(self) -> ValueSource | None:
        """The range, if the filter has one and no other pattern."""
        match parse_pattern(self.filter).sources:
            case (ValueSource() as keys,) if keys.kind == SEQUENCE:
                return keys
        return None

    @checked
    def _has_keys(self) -> Iterator[Found]:
        if self.keys is None:
            reason = f"expected one range of numbers in turn, got {got(self.filter)}"
            fault = Fault(reason, "such as (uid=user.[0:999])")
            yield ("filter",), fault


class Prime(JobType[PrimeOptions]):
    """Search for each number of a range exactly once over the whole fleet, then end,
    as SLAMD's Prime jobs do. The run needs no duration: its last search ends it."""

    name: ClassVar[str] = "prime"
    Options: ClassVar[type[Section]] = PrimeOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "count")

    def expand(
        self, options: PrimeOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        keys = options.keys
        assert keys is not None
        count = abs(keys.hi - keys.lo) // keys.step + 1
        return {"operations": [{"search": options.search}], "count": count}


class BurstOptions(SearchOptions):
    """What each client searches, and what a client is."""

    filter: FilterText = "(objectClass=*)"
    """which entries; patterns allowed"""
    anonymous_bind: Flag = False
    """begin each connection with an anonymous bind, as ldapsearch does; recorded as
    `bind`, and the end of the connection as `unbind`. For streams without a `bind` of
    their own, which else send none"""
    client: Literal["engine", "process"] = "engine"
    """engine: a new connection of the engine for each search; process: a new
    `ldapsearch` process, which costs the client what it costs in a shell"""


class Burst(JobType[BurstOptions]):
    """A connection for every operation: connect, bind, search, unbind, and at once the
    next. The set-up has times of its own, which are not in the search's."""

    name: ClassVar[str] = "burst"
    Options: ClassVar[type[Section]] = BurstOptions

    def expand(
        self, options: BurstOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        if options.client == "process":
            return {
                "python": {
                    "class": self.python_class(),
                    "options": options.search,
                    "operations": ["search"],
                }
            }
        if options.anonymous_bind:
            steps = [
                {"bind": {"anonymous": True}},
                {"search": options.search},
                {"unbind": {}},
            ]
            return {"operations": [{"sequence": steps}]}
        given = stream.get("connection")
        connection = dict(given) if isinstance(given, dict) else {}
        return {
            "operations": [{"search": options.search}],
            "connection": {**connection, "per_operation": True},
        }


_DEFAULT_RATE = units.parse_rate("5/s")


def _named_by_cn(dn: str) -> str:
    if not check_dn(dn).lower().lstrip().startswith("cn="):
        raise Fault(f"expected a DN that begins with cn=, got {dn!r}")
    return dn


class ReplicationProbeOptions(Section):
    """What is written, and who is to have it."""

    replicas: Annotated[
        list[Name],
        Field(min_length=1),
        BeforeValidator(one_or_more),
        one_or_more_schema({"type": "string", "pattern": NAME_PATTERN}, minItems=1),
    ] = Field(examples=["replica"])
    """roles of `targets` whose servers are watched; one name, or a list"""
    dn: Annotated[Text, AfterValidator(_named_by_cn), Kind("DN")] = Field(
        examples=["'cn=probe,dc=example,dc=com'"]
    )
    """entry that is written, of one cn; it is added for the run, as a device, when it
    is not there"""
    attribute: AttributeName = "description"
    """its attribute that is replaced; the values are put back in the end"""
    rate: RateField = _DEFAULT_RATE
    """writes, evenly spaced whatever they take"""
    poll_ns: PositiveDuration | None = Field(default=None, examples=["20ms"])
    """read the entry on each replica so often; without it, replicas tell of changes
    (RFC 4533, or 389-DS's persistent search)"""


class ReplicationProbe(JobType[ReplicationProbeOptions]):
    """Writes a mark on the first server of the target and waits until each replica has
    it, for all marks at once: propagation time, as an operation of each replica. One
    process does both, so that one clock measures it."""

    name: ClassVar[str] = "replication_probe"
    Options: ClassVar[type[Section]] = ReplicationProbeOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python", "load")

    def expand_among(
        self,
        options: ReplicationProbeOptions,
        stream: Mapping[str, Any],
        targets: Mapping[str, Any],
    ) -> dict[str, Any]:
        watched = [
            name
            for role in options.replicas
            for name in _operations(role, targets.get(role))
        ]
        rate: Rate = options.rate
        return {
            "python": {
                "class": self.python_class(),
                "operations": ["write", *watched],
                "watches": list(options.replicas),
                "options": {
                    "dn": options.dn,
                    "attribute": options.attribute,
                    "poll_ns": options.poll_ns,
                    "watch": watched,
                },
            },
            "load": {"rate": units.format_rate(rate), "connections": 1},
        }


def _operations(role: str, uris: Any) -> list[str]:
    """A name for each server of a role, in its order."""
    number = len(uris) if isinstance(uris, list) else 1
    if number == 1:
        return [f"propagation-{role}"]
    return [f"propagation-{role}-{n + 1}" for n in range(number)]


IMPORT_OPERATION = "import"
#: Settings of slapd whose values are paths on the agent's host.
PATH_SETTINGS = ("include", "moduleload")
#: An agent keeps this many notes of a client, one for each import.
MAX_IMPORTS = 100


class BulkLoadOptions(Section):
    """What is imported, by which server, and where its database is."""

    server: Literal["slapd", "389ds"] = Field(examples=["slapd"])
    """which directory server"""
    method: Literal["offline", "online"] = "offline"
    """offline: slapadd, or ldif2db; online: adds over LDAP to a slapd, an import task
    of a 389-DS"""
    quick: Flag | None = None
    """slapadd -q, without checks and transactions; of slapd and offline alone"""
    entries: Count | None = Field(default=None, examples=["10000"])
    """how many entries the template makes (`data generate -n`); without it, as it
    says"""
    template: Text = "people"
    """name of an example template of `data generate`"""
    template_file: FileName | None = None
    """instead: a template of one's own"""
    ldif: HostFile | None = None
    """instead of a template: an LDIF file on the agent's host"""
    place: HostFile | None = Field(default=None, examples=["/mnt/ext4"])
    """folder on the agent's host in which the database is made and removed again;
    without it, the folder for temporary files"""
    binary: HostFile | None = None
    """slapd or ns-slapd of a build under test; without it, the installed one"""
    backend: Literal["mdb", "bdb"] | None = None
    """the server's database; without it, its usual one"""
    settings: dict[Text, Text | list[Text]] = Field(
        default_factory=dict, examples=["{index: ['cn,sn eq,sub', 'mail eq']}"]
    )
    """settings of the server, as of `lab up --set`; a list gives one more than once"""

    _template_text: str | None = PrivateAttr(default=None)

    @checked
    def _read(self, reading: Reading) -> None:
        if self.template_file is not None:
            self._template_text = reading.text_of(self.template_file)

    @checked
    def _check_together(self, reading: Reading) -> None:
        if self.ldif is not None:
            others = {"template", "template_file", "entries"} & self.model_fields_set
            if others:
                raise Fault(
                    f"ldif excludes {' and '.join(sorted(others))}",
                    "a file has the entries that it has",
                )
        if {"template", "template_file"} <= self.model_fields_set:
            raise Fault("template and template_file exclude each other", "keep one")
        for name, given in self.settings.items():
            if name.strip().lower() in PATH_SETTINGS:
                for path in one_or_more(given):
                    reading.need_on_host(path)
        if self.quick is not None and (self.server, self.method) != (
            "slapd",
            "offline",
        ):
            raise Fault("quick is of slapd and offline alone", "leave it out")


class BulkLoad(JobType[BulkLoadOptions]):
    """Times the import of a population into a fresh server of its own on the agent's
    host: one operation `import` of its whole length, by one client. `count` says how
    many there are, one after the other, each into an empty database; without it, one.
    Nothing is sent to the target, and agents are not chosen by it."""

    name: ClassVar[str] = "bulk_load"
    Options: ClassVar[type[Section]] = BulkLoadOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python", "load")

    def expand(
        self, options: BulkLoadOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        count = stream.get("count", 1)
        if isinstance(count, int) and count > MAX_IMPORTS:
            raise Fault(
                f"{count:,} imports, a stream has at most {MAX_IMPORTS}",
                "each is reported by itself: lower `count`",
            )
        given = dict(options)
        del given["template_file"]
        given["template"] = None if options.ldif else options.template
        given["template_text"] = options._template_text
        given["quick"] = options.quick is not False
        return {
            "python": {
                "class": self.python_class(),
                "operations": [IMPORT_OPERATION],
                "needs_target": False,
                "options": drop_none(given),
            },
            "load": {"clients": 1},
            **({} if "count" in stream else {"count": 1}),
        }


BUILT_IN: tuple[type[JobType[Any]], ...] = (
    Auth,
    SearchModify,
    Burst,
    Prime,
    ReplicationProbe,
    BulkLoad,
)
