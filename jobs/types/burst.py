# SPDX-License-Identifier: Apache-2.0
"""The job type `burst`: clients that connect for every single request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ldapslam.jobs.fields.sections import Flag, Section
from ldapslam.jobs.fields.texts import FilterText
from ldapslam.jobs.types.base import JobType, SearchOptions


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
