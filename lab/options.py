# SPDX-License-Identifier: Apache-2.0
"""Settings that the user of a lab may give by name, and where each has its place.

A table per server says which names there are: one that is misspelt is refused with the
nearest, before anything is started. What a value may be is the server's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault, did_you_mean
from ldapslam.base.units import parse_size

#: Names and values in the order given; a name may occur more than once.
Options = Sequence[tuple[str, str]]


class Option(NamedTuple):
    """One name of a table."""

    #: The part of the configuration that it belongs to.
    place: str
    #: `size` takes a number of bytes or a text such as 512MiB.
    kind: Literal["text", "size", "flag"] = "text"
    #: The server's own name; None where it is the same.
    own_name: str | None = None


def placed(
    options: Options, table: Mapping[str, Option], server: str
) -> dict[str, list[tuple[str, str]]]:
    """The server's names and values by place; ConfigError for names not in `table`. A
    flag that is on has an empty value, one that is off is left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    names = {name.lower(): name for name in table}
    for given, text in options:
        name = names.get(given.lower())
        if name is None:
            raise ConfigError(
                f"--setting {given}: {server} has no setting of this name in a lab",
                hint=_ABSENT.get((server, given.lower()))
                or did_you_mean(given, table, "settings"),
            )
        option = table[name]
        value = _value(name, text.strip(), option)
        if value is not None:
            found.setdefault(option.place, []).append((option.own_name or name, value))
    return found


def _value(name: str, text: str, option: Option) -> str | None:
    if not text or not text.isprintable():
        raise ConfigError(
            f"--setting {name}: expected a value in one line, got {text!r}",
            hint=f"--setting {name}=VALUE",
        )
    if option.kind == "size" and not text.isdecimal():
        try:
            return str(parse_size(text))
        except Fault as fault:
            raise ConfigError(f"--setting {name}: {fault}", hint=fault.hint) from None
    if option.kind == "flag":
        if text not in ("on", "off"):
            raise ConfigError(f"--setting {name}: expected 'on' or 'off', got {text!r}")
        return "" if text == "on" else None
    return text


def _table(
    place: str, names: str, kind: Literal["text", "size"] = "text"
) -> dict[str, Option]:
    return {name: Option(place, kind) for name in names.split()}


#: Directives of slapd.conf(5), slapd-mdb(5) and slapo-syncprov(5).
SLAPD = {
    **_table(
        "global",
        "concurrency conn_max_pending conn_max_pending_auth disallow gentlehup "
        "idletimeout include index_intlen index_substr_any_len index_substr_any_step "
        "index_substr_if_maxlen index_substr_if_minlen listener-threads loglevel "
        "moduleload password-hash security sizelimit sockbuf_max_incoming "
        "sockbuf_max_incoming_auth tcp-buffer threadqueues threads timelimit "
        "tool-threads writetimeout",
    ),
    **_table(
        "database",
        "checkpoint envflags idlexp index lastbind lastmod limits maxderefdepth "
        "maxreaders mode multival readonly rtxnsize searchstack",
    ),
    **_table("database", "maxentrysize maxsize", "size"),
    "dbnosync": Option("database", "flag"),
    **_table("provider", "syncprov-checkpoint syncprov-sessionlog"),
}

# What other servers have, or a server had.
_ABSENT = {
    ("slapd", name): "mdb has no cache of its own: the kernel caches the file it maps"
    for name in ("cachesize", "dncachesize", "dbcachesize", "idlcachesize")
}

_LDBM = "cn=config,cn=ldbm database,cn=plugins,cn=config"

#: Attributes of 389-DS's cn=config and the entries below it, and short names of some.
DS389 = {
    **_table(
        "cn=config",
        "nsslapd-accesslog-level nsslapd-accesslog-logbuffering "
        "nsslapd-accesslog-logging-enabled nsslapd-auditlog-logging-enabled "
        "nsslapd-connection-nocanon nsslapd-enable-turbo-mode nsslapd-errorlog-level "
        "nsslapd-idletimeout nsslapd-ioblocktimeout nsslapd-listen-backlog-size "
        "nsslapd-maxdescriptors nsslapd-maxthreadsperconn nsslapd-nagle "
        "nsslapd-ndn-cache-enabled nsslapd-numlisteners "
        "nsslapd-outbound-ldap-io-timeout "
        "nsslapd-plugin-logging nsslapd-securitylog-logging-enabled nsslapd-sizelimit "
        "nsslapd-threadnumber nsslapd-timelimit passwordStorageScheme",
    ),
    **_table("cn=config", "nsslapd-maxbersize nsslapd-ndn-cache-max-size", "size"),
    **_table(
        _LDBM,
        "nsslapd-idlistscanlimit nsslapd-lookthroughlimit nsslapd-pagedidlistscanlimit "
        "nsslapd-pagedlookthroughlimit nsslapd-rangelookthroughlimit "
        "nsslapd-search-bypass-filter-test",
    ),
    **_table(
        f"cn=bdb,{_LDBM}",
        "nsslapd-cache-autosize nsslapd-cache-autosize-split "
        "nsslapd-db-checkpoint-interval nsslapd-db-compactdb-interval "
        "nsslapd-db-deadlock-policy nsslapd-db-durable-transaction nsslapd-db-locks "
        "nsslapd-db-transaction-batch-max-wait nsslapd-db-transaction-batch-min-wait "
        "nsslapd-db-transaction-batch-val",
    ),
    **_table(
        f"cn=bdb,{_LDBM}",
        "nsslapd-db-logbuf-size nsslapd-db-page-size nsslapd-dbcachesize",
        "size",
    ),
    **_table(f"cn=mdb,{_LDBM}", "nsslapd-mdb-max-dbs nsslapd-mdb-max-readers"),
    **_table(f"cn=mdb,{_LDBM}", "nsslapd-mdb-max-size", "size"),
    **_table("backend", "nsslapd-cachesize nsslapd-readonly nsslapd-require-index"),
    **_table("backend", "nsslapd-cachememsize nsslapd-dncachememsize", "size"),
    "cachesize": Option("backend", "size", "nsslapd-cachememsize"),
    "dncachesize": Option("backend", "size", "nsslapd-dncachememsize"),
    "dbcachesize": Option(f"cn=bdb,{_LDBM}", "size", "nsslapd-dbcachesize"),
    "threads": Option("cn=config", "text", "nsslapd-threadnumber"),
}
