# SPDX-License-Identifier: Apache-2.0
"""The job type `prime`: read every key of a range once, to fill the server's caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.sections import Section, Text, checked
from ldapslam.jobs.types.base import JobType, SearchOptions

_HOLE = "[key]"


class PrimeOptions(SearchOptions):
    """The range of the keys, and the search that each is put into."""

    filter: Text = Field(examples=["(uid=user.[key])"])
    """which entry; [key] stands for the key, once"""
    first: int = Field(default=0, ge=0)
    """the first key"""
    last: int = Field(ge=0, examples=["999999"])
    """the last key"""
    digits: int = Field(default=0, ge=0, le=20)
    """digits of a key, padded with zeros"""

    @checked
    def _range_and_hole(self) -> None:
        if self.first > self.last:
            raise Fault(
                f"expected a range from low to high, got {self.first} to {self.last}",
                "exchange first and last",
            )
        if self.filter.count(_HOLE) != 1:
            raise Fault(
                f"expected a filter with {_HOLE} once, got {self.filter!r}",
                "such as (uid=user.[key])",
            )


class Prime(JobType[PrimeOptions]):
    """Search for each key of a range exactly once over the whole fleet, then end:
    SLAMD's Prime jobs. The run ends with its last search, so no duration is needed."""

    name: ClassVar[str] = "prime"
    Options: ClassVar[type[Section]] = PrimeOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "count")

    def expand(
        self, options: PrimeOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        width = f"%{'0' * options.digits}" if options.digits else ""
        keys = f"[{options.first}:{options.last}{width}]"
        search = {**options.search, "filter": options.filter.replace(_HOLE, keys)}
        return {
            "operations": [{"search": search}],
            "count": options.last - options.first + 1,
        }
