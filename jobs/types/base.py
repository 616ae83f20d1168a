# SPDX-License-Identifier: Apache-2.0
"""What a job type is: a short way to write a stream that one can also write in full.

    streams:
      - name: logins
        target: replica
        type: auth
        options: {base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-999])", …}
        load: {clients: 16}

A type checks its options and turns them into keys of the stream in the job file's own
terms: `operations`, `connection`, `count`, or `python` for a class that drives the
stream itself. The stream is expanded before the job is checked, so a type cannot make
what a job file cannot say, and what it makes is explained by the same documentation.

A third party's type is a subclass of JobType that the entry point group
`ldapslam.job_types` names. It must be installed wherever the job is read: beside the
command line, on the coordinator and on every agent; code is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.fields.texts import AttributeSelector, BaseDn, FilterText

PYTHON_JOBS = "ldapslam.python_jobs"

OptionsT = TypeVar("OptionsT", bound=Section)


class SearchOptions(Section):
    """A search that types make."""

    base: BaseDn = Field(examples=["ou=people,dc=example,dc=com"])
    """where to search; patterns allowed"""
    scope: Literal["base", "one", "sub", "children"] = "sub"
    """how far below the base"""
    filter: FilterText = Field(examples=["(uid=user.[0-999])"])
    """which entry; patterns allowed; it should find one"""
    attributes: list[AttributeSelector] = Field(default_factory=list)
    """attributes to return; an empty list is all"""

    @property
    def search(self) -> dict[str, Any]:
        """The fields of the search operation."""
        return {
            "base": self.base,
            "scope": self.scope,
            "filter": self.filter,
            "attributes": list(self.attributes),
        }


class JobType(Generic[OptionsT]):
    """Base of all job types; the docstring of a subclass is its documentation."""

    #: What `type:` calls it.
    name: ClassVar[str]
    #: What `options:` may say; its docstring and descriptions are shown to users. A
    #: field of type sections.FileName is a file that the agents are sent; a check of
    #: the options (sections.checked) may read it (context.Reading.text_of).
    Options: ClassVar[type[Section]]
    #: Keys of the stream that the type sets, so that the job file must not.
    sets: ClassVar[tuple[str, ...]] = ("operations",)

    @classmethod
    def python_class(cls) -> str:
        """'module:Class' of the type's streams, from `ldapslam.python_jobs`."""
        found = tuple(entry_points(group=PYTHON_JOBS, name=cls.name))
        # another package may have registered the same name: it does not replace ours
        own = [one for one in found if one.dist and one.dist.name == "ldapslam"]
        chosen = own if cls.__module__.startswith("ldapslam.") else found
        if len({one.value for one in chosen}) != 1:
            raise ConfigError(
                f"job type {cls.name!r} has {len(chosen)} Python classes in the entry "
                f"point group {PYTHON_JOBS!r}, not one",
                hint="install the package that brings the job type again",
            )
        return chosen[0].value

    @classmethod
    def summary(cls) -> str:
        """What the type is, as one paragraph."""
        return " ".join((cls.__doc__ or "").split())

    def expand(self, options: OptionsT, stream: Mapping[str, Any]) -> dict[str, Any]:
        """Keys of the stream and their values, as a job file has them. `stream` is
        what the job file says beside type and options, not yet checked: only what the
        type extends need be read. A Fault says what does not go together."""
        raise NotImplementedError

    def expand_among(
        self, options: OptionsT, stream: Mapping[str, Any], targets: Mapping[str, Any]
    ) -> dict[str, Any]:
        """`expand` for a type that needs the job's targets, which are not checked
        yet."""
        return self.expand(options, stream)


def drop_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that have a value: what an option leaves out, the stream does too."""
    return {key: value for key, value in mapping.items() if value is not None}
