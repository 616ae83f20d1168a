# SPDX-License-Identifier: Apache-2.0
"""The job type `python`: a class of the user's, with a python-ldap connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.model import PythonOptions
from ldapslam.jobs.types.base import JobType


class Python(JobType[PythonOptions]):
    """A class of yours, run by virtual clients that are processes with a python-ldap
    connection each: for what the engine does not do. Its times are taken as the
    engine's are; what it costs the client is far more."""

    name: ClassVar[str] = "python"
    Options: ClassVar[type[Section]] = PythonOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python")

    def expand(
        self, options: PythonOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "python": {
                "class": options.class_path,
                "operations": list(options.operations),
                "options": dict(options.options),
            }
        }
