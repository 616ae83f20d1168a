# SPDX-License-Identifier: Apache-2.0
"""The job type `python`: a class of the user's, with a python-ldap connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints

from ldapslam.jobs.fields.sections import Name, Section, Text
from ldapslam.jobs.types.base import JobType

CLASS_PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class PythonOptions(Section):
    """The class, what it records, and what it is given."""

    class_path: Annotated[Text, StringConstraints(pattern=CLASS_PATTERN)] = Field(
        alias="class",
        description="its module and name; installed on every agent",
        examples=["'my_load.jobs:Login'"],
    )
    operations: list[Name] = Field(
        min_length=1,
        description="names of what the class records, as in reports and thresholds",
        examples=["[login]"],
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="what the class is given, as it is"
    )


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
