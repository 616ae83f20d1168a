# SPDX-License-Identifier: Apache-2.0
"""The job type `search_modify`: find an entry, then change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ldapslam.jobs.fields.sections import Count, Section
from ldapslam.jobs.fields.texts import (
    AttributeName,
)
from ldapslam.jobs.fields.texts import Values as AttributeValues
from ldapslam.jobs.types.base import JobType, SearchOptions


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
