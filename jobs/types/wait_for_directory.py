# SPDX-License-Identifier: Apache-2.0
"""The job type `wait_for_directory`: until every server of a role answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from ldapslam.base.fault import Fault
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.fields.sections import PositiveDuration, Section, Text
from ldapslam.jobs.types.base import JobType


class WaitOptions(Section):
    """What has to be there, and for how long it may not be."""

    base: Text = ""
    """DN of the entry that each server must have; without it, the server must answer
    for its root DSE"""
    limit_ns: PositiveDuration = Field(examples=["5m"])
    """longest wait for all of them; the run's duration must be longer"""
    interval_ns: PositiveDuration = NS_PER_S // 2
    """pause between two attempts at one server"""


class WaitForDirectory(JobType[WaitOptions]):
    """Asks every server of the role, one after the other, until each answers for an
    entry or the limit has passed: for scripts that go on when a directory is there.
    The run ends with the last answer. The servers need not be there at the start."""

    name: ClassVar[str] = "wait_for_directory"
    Options: ClassVar[type[Section]] = WaitOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python", "load", "count")

    def expand(self, options: WaitOptions, stream: Mapping[str, Any]) -> dict[str, Any]:
        if options.interval_ns > options.limit_ns:
            raise Fault(
                "the interval is longer than the limit", "make the limit longer"
            )
        return {
            "python": {
                "class": self.python_class(),
                "operations": ["answer"],
                "needs_target": False,
                "options": {
                    "base": options.base,
                    "limit_ns": options.limit_ns,
                    "interval_ns": options.interval_ns,
                },
            },
            "load": {"closed": {"clients": 1}},
            "count": 1,
        }
