# SPDX-License-Identifier: Apache-2.0
"""The job type `mix`: the operations of the stream, as the job file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.types.base import JobType


class MixOptions(Section):
    """None: a mix is written as `operations`."""


class Mix(JobType[MixOptions]):
    """The stream's `operations`, chosen by weight; a stream without `type` is one."""

    name: ClassVar[str] = "mix"
    Options: ClassVar[type[Section]] = MixOptions
    sets: ClassVar[tuple[str, ...]] = ()

    def expand(self, options: MixOptions, stream: Mapping[str, Any]) -> dict[str, Any]:
        return {}
