# SPDX-License-Identifier: Apache-2.0
"""What a run watches beside its load, and what it verifies afterwards. Pure data:
agent/monitoring reads the servers and hosts, directory/replication.py compares the
servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ldapslam.base.fault import Fault, one_of
from ldapslam.jobs.fields.connection import Bind
from ldapslam.jobs.fields.sections import (
    Count,
    Flag,
    HostFile,
    Interval,
    Kind,
    Name,
    PositiveDuration,
    Section,
    Text,
    checked,
)
from ldapslam.jobs.fields.texts import AttributeName
from ldapslam.jobs.requests.dn import check_dn

#: Key of a monitor's kind -> the keys that go with it; `every` goes with all.
_KEYS = {
    "directory": ("bind",),
    "entry": ("target", "attributes", "counters", "bind"),
    "host": ("processes",),
    "log": ("format", "target"),
}
_Dn = Annotated[Text, Field(min_length=1), AfterValidator(check_dn), Kind("DN")]


class Monitor(Section):
    """Values of a server or a host that are read during the whole run."""

    exactly_one: ClassVar[tuple[str, ...]] = tuple(_KEYS)
    needs: ClassVar[Mapping[str, str]] = {"entry": "target", "log": "format"}

    directory: Name | None = None
    """a role of `targets`: what each of its servers, slapd or 389-DS, says of itself
    below cn=monitor"""
    entry: _Dn | None = None
    """DN of an entry: numbers that it has"""
    host: Name | None = None
    """a role of `targets`: CPU, memory, disks and network of the hosts of its servers,
    each read by an agent on it"""
    log: HostFile | None = None
    """absolute path of a directory's log on the server's host: counts of operations and
    result codes, by an agent on it"""
    target: Name | None = None
    """with `entry`: the role whose servers have the entry; with `log`: the role whose
    server writes it, without it any"""
    attributes: list[AttributeName] = Field(
        default_factory=list, examples=["[olmMDBPagesUsed]"]
    )
    """with `entry`: attributes whose values go up and down"""
    counters: list[AttributeName] = Field(
        default_factory=list, examples=["[olmDbNotIndexed]"]
    )
    """with `entry`: attributes that count; reports show their rates"""
    processes: list[Annotated[Text, Field(min_length=1)]] = Field(
        default_factory=list, examples=["[slapd]"]
    )
    """with `host`: names of programs; of the processes of each, those are watched that
    serve the role, or all where none does"""
    format: Literal["openldap", "389ds"] | None = None
    """with `log`: whose log it is"""
    every_ns: Interval | None = None
    """time between readings, at least 100ms; without it, run.interval"""
    bind: Bind | None = None
    """with `directory` and `entry`: the identity to read as, instead of the job's"""

    @property
    def kind(self) -> str:
        return next(key for key in _KEYS if getattr(self, key) is not None)

    @property
    def role(self) -> str | None:
        """Role of the servers that it is about; None: of any."""
        return self.directory or self.host or self.target

    @checked
    def _keys_go_together(self) -> None:
        kind = self.kind
        for key in sorted({key for keys in _KEYS.values() for key in keys}):
            if getattr(self, key) and key not in _KEYS[kind]:
                kinds = [one for one, keys in _KEYS.items() if key in keys]
                raise Fault(
                    f"the key {key!r} goes with {one_of(kinds)}, got {kind!r}",
                    "leave it out",
                )
        if kind == "entry" and not self.attributes and not self.counters:
            raise Fault(
                "expected attributes or counters, got none",
                "name what is to be read of the entry",
            )
        names = Counter(name.lower() for name in (*self.attributes, *self.counters))
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise Fault(f"the attribute {twice[0]!r} is there twice", "keep one")


class ReplicationCheck(Section):
    """After the load: do all servers of the job hold the same?"""

    within_ns: PositiveDuration = Field(examples=["60s"])
    """how long the servers may take, from the end of the load, to have the same
    state"""
    base: _Dn | None = None
    """top of the tree that is compared; without it, each server's naming context"""
    content: Flag = True
    """whether entries are compared too, not states alone"""
    sample: Count | None = None
    """compare this many entries, chosen by the seed; without it, all"""

    @checked
    def _sample_is_of_content(self) -> None:
        if self.sample is not None and not self.content:
            raise Fault(
                "a sample is of the content, which is not compared",
                "leave out `sample`, or `content: false`",
            )


class Verify(Section):
    """What is verified after the load."""

    replication: ReplicationCheck = Field(examples=["{within: 60s}"])
    """that replication delivered what was written"""
