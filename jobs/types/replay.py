# SPDX-License-Identifier: Apache-2.0
"""The job type `replay`: the log of a directory as the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.replay import options as replay_options
from ldapslam.jobs.types.base import JobType


class Replay(JobType[replay_options.Replay]):
    """The requests of a log, at the log's times or a multiple of its speed (`load:
    {replay: …}`). What the log lacks is substituted as the options say, or skipped and
    counted. `ldapslam replay run` writes such a job."""

    name: ClassVar[str] = "replay"
    Options: ClassVar[type[Section]] = replay_options.Replay
    sets: ClassVar[tuple[str, ...]] = ("operations", "replay")

    def expand(
        self, options: replay_options.Replay, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "replay": options.model_dump(mode="json", by_alias=True, exclude_none=True)
        }
