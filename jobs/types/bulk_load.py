# SPDX-License-Identifier: Apache-2.0
"""The job type `bulk_load`: how long a directory takes to import its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.connection import HostFile, absolute
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import (
    Count,
    FileName,
    Flag,
    Section,
    Text,
    checked,
    one_or_more,
)
from ldapslam.jobs.types.base import JobType, drop_none

OPERATION = "import"
#: Settings of slapd whose values are paths on the agent's host.
PATH_SETTINGS = ("include", "moduleload")
#: Each is noted; an agent keeps so many notes of a client.
MAX_IMPORTS = 100


def _of_a_program(words: list[str]) -> list[str]:
    return [absolute(words[0]), *words[1:]]


class BulkLoadOptions(Section):
    """What is imported, by which server, and where its database is."""

    server: Literal["slapd", "389ds"] = Field(examples=["slapd"])
    """which directory server"""
    method: Literal["offline", "online"] = "offline"
    """offline: slapadd, or ldif2db; online: adds over LDAP to a slapd, an import task
    of a 389-DS"""
    quick: Flag | None = None
    """slapadd -q, without checks and transactions; of slapd and offline alone"""
    entries: Count | None = Field(default=None, examples=["10000"])
    """how many entries the template makes (`data generate -n`); without it, as it
    says"""
    template: Text = "people"
    """name of a ready template of `data generate`"""
    template_file: FileName | None = None
    """instead: a template of one's own"""
    ldif: HostFile | None = None
    """instead of a template: an LDIF file on the agent's host"""
    place: HostFile | None = Field(default=None, examples=["/mnt/ext4"])
    """folder on the agent's host in which the database is made and removed again;
    without it, the folder for temporary files"""
    prepare: (
        Annotated[
            list[Text],
            Field(min_length=1),
            BeforeValidator(one_or_more),
            AfterValidator(_of_a_program),
        ]
        | None
    ) = Field(default=None, examples=["[/usr/local/sbin/fresh-filesystem, xfs]"])
    """instead of `place`: a program on the agent's host and its arguments. It is run
    before each import, with the first argument `prepare`, and prints the folder; and
    after it, with `release` and that folder as last argument"""
    binary: HostFile | None = None
    """slapd or ns-slapd of a build under test; without it, the installed one"""
    backend: Literal["mdb", "bdb"] | None = None
    """the server's database; without it, its usual one"""
    settings: dict[Text, Text | list[Text]] = Field(
        default_factory=dict, examples=["{index: ['cn,sn eq,sub', 'mail eq']}"]
    )
    """settings of the server, as of `lab up --set`; a list gives one more than once"""

    _template_text: str | None = PrivateAttr(default=None)

    @checked
    def _read(self, reading: Reading) -> None:
        if self.template_file is not None:
            self._template_text = reading.text_of(self.template_file)

    @checked
    def _check_together(self) -> None:
        if self.ldif is not None:
            others = {"template", "template_file", "entries"} & self.model_fields_set
            if others:
                raise Fault(
                    f"ldif excludes {' and '.join(sorted(others))}",
                    "a file has the entries that it has",
                )
        if {"template", "template_file"} <= self.model_fields_set:
            raise Fault("template and template_file exclude each other", "keep one")
        if self.place is not None and self.prepare is not None:
            raise Fault(
                "place and prepare exclude each other",
                "the folder is the one that the program prints",
            )
        for name, given in self.settings.items():
            if name.strip().lower() in PATH_SETTINGS:
                for path in one_or_more(given):
                    absolute(path)
        if self.quick is not None and (self.server, self.method) != (
            "slapd",
            "offline",
        ):
            raise Fault("quick is of slapd and offline alone", "leave it out")


class BulkLoad(JobType[BulkLoadOptions]):
    """Times the import of a population into a fresh server of its own on the agent's
    host: one operation `import` of its whole length, by one client. `count` says how
    many there are, one after the other, each into an empty database; without it, one.
    Nothing is sent to the target, and agents are not chosen by it."""

    name: ClassVar[str] = "bulk_load"
    Options: ClassVar[type[Section]] = BulkLoadOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python", "load")

    def expand(
        self, options: BulkLoadOptions, stream: Mapping[str, Any]
    ) -> dict[str, Any]:
        count = stream.get("count", 1)
        if isinstance(count, int) and count > MAX_IMPORTS:
            raise Fault(
                f"{count:,} imports, a stream has at most {MAX_IMPORTS}",
                "each is a figure of its own: lower `count`",
            )
        is_quick = options.quick if options.quick is not None else True
        return {
            "python": {
                "class": self.python_class(),
                "operations": [OPERATION],
                "needs_target": False,
                "options": drop_none(
                    {
                        "server": options.server,
                        "method": options.method,
                        "quick": is_quick,
                        "entries": options.entries,
                        "template": None if options.ldif else options.template,
                        "template_text": options._template_text,
                        "ldif": options.ldif,
                        "place": options.place,
                        "prepare": options.prepare,
                        "binary": options.binary,
                        "backend": options.backend,
                        "settings": options.settings,
                    }
                ),
            },
            "load": {"closed": {"clients": 1}},
            **({} if "count" in stream else {"count": 1}),
        }
