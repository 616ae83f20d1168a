# SPDX-License-Identifier: Apache-2.0
"""The load of a log (`load: {trace: …}`): the log, how fast it is sent, and substitutes
for what no log has.

A log has neither passwords nor the values of adds, modifies and compares. Where the job
names no substitute, such requests are skipped; the run says how many, and why.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ldapslam.base.fault import expected
from ldapslam.jobs.fields.connection import MAX_CONNECTIONS
from ldapslam.jobs.fields.sections import (
    Count,
    Duration,
    FileName,
    Flag,
    Kind,
    Section,
    Text,
)
from ldapslam.jobs.fields.texts import AttributeName

#: What a replay can send: the tag of the response, and result codes that are success.
#: The order is that of the engine's numbers.
KINDS: dict[str, tuple[int, tuple[int, ...]]] = {
    "search": (0x65, (0,)),
    "compare": (0x6F, (5, 6)),
    "bind": (0x61, (0,)),
    "add": (0x69, (0,)),
    "modify": (0x67, (0,)),
    "delete": (0x6B, (0,)),
    "modify_dn": (0x6D, (0,)),
    "extended": (0x78, (0,)),
    "unbind": (0, ()),
}


AS_FAST_AS_POSSIBLE = "max"
_SPEED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)x", re.ASCII)


def _checked_speed(value: object) -> str:
    match = _SPEED.fullmatch(value) if isinstance(value, str) else None
    if value != AS_FAST_AS_POSSIBLE and (match is None or float(match[1]) == 0):
        raise expected(
            "a speed such as '1x' or '10x'", value, "as fast as possible is 'max'"
        )
    return str(value)


class ReplayedBinds(Section):
    """The simple binds of the log. SASL binds are never replayed."""

    exactly_one: ClassVar[tuple[str, ...]] = ("as_configured", "password")

    as_configured: Annotated[Literal[True] | None, Kind("true")] = None
    """each as the stream's own `bind` identity, whoever it was"""
    password: Text | None = Field(default=None, min_length=1)
    """each as the log's DN, with this password: that of a test population, not a
    secret"""


class ReplayedModifies(Section):
    """The modifies of the log: each replaces one attribute of the entry."""

    attribute: AttributeName = "description"
    """the attribute to replace"""
    length: Annotated[Count, Field(le=4096)] = 20
    """length of its new value, of random letters"""


class ReplayedAdds(Section):
    """The adds of the log: each entry has its RDN's attributes and these."""

    entry: dict[AttributeName, Text | list[Text]] = Field(
        min_length=1, examples=["{objectClass: inetOrgPerson, cn: x, sn: x}"]
    )
    """attribute and the value or values of every entry"""


class Trace(Section):
    """The requests of a directory's log, each due at its time, in the order and on the
    connections of the log. A request that finds its connection busy waits; its response
    time counts from when it was due. Anonymous binds are handled as simple binds are.
    `ldapslam new --log --trace` writes such a load."""

    logs: list[FileName] = Field(
        min_length=1, examples=["[access.log, access.log.1.gz]"]
    )
    """files of OpenLDAP (loglevel stats) or 389 Directory Server, in any order, also
    compressed with gzip; relative to the job file"""
    connections: Annotated[Count, Field(le=MAX_CONNECTIONS)] | None = Field(
        default=None, examples=[16]
    )
    """connections, in total over all agents; without it, the number that the log needs
    at this speed"""
    speed: Annotated[str, BeforeValidator(_checked_speed), Kind("speed")] = "1x"
    """how many times as fast as the log: 1x, 10x, 0.5x; max: each connection sends its
    next request when the last request is answered"""
    skip_ns: Duration = 0
    """leave out this much of the log's begin"""
    binds: ReplayedBinds | None = None
    """without it, binds are skipped"""
    modifies: ReplayedModifies | None = None
    """without it, modifies are skipped"""
    adds: ReplayedAdds | None = None
    """without it, adds are skipped"""
    deletes: Flag = False
    """delete the entries that the log names"""
    renames: Flag = False
    """rename the entries that the log names; OpenLDAP's log does not have their new
    names, so those are skipped"""
    compare_value: Text = "ldapslam"
    """what compares compare with"""

    @property
    def factor(self) -> float | None:
        """How many times as fast as the log; None: as fast as possible."""
        match = _SPEED.fullmatch(self.speed)
        return float(match[1]) if match else None
