# SPDX-License-Identifier: Apache-2.0
"""What the validation of a job knows beside the value at hand: pydantic's `context`.

Those are the files that the job names, and the names that patterns may use. Without a
context no file is looked into and no name is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationInfo

from ldapslam.base.fault import Fault, expected, got
from ldapslam.jobs.requests.scope import Scope

#: Longest file that is read whole: templates and tables, not feeds of values.
MAX_BYTES = 16 << 20


@dataclass
class Reading:
    """The validation of one job."""

    #: Files by name as the job has it: where they are, or what is in them.
    places: Mapping[str, Path | bytes] = field(default_factory=dict)
    #: Folder of the other files; None: they are not looked for.
    base: Path | None = None
    #: What the user's own command says: it may name files outside of the folder.
    command: Sequence[str] = ()
    #: Variables of the session of requests that is being validated.
    scope: Scope = field(default_factory=Scope)
    #: Files that the job names, and where they are, if they are looked for.
    named: dict[str, Path | None] = field(default_factory=dict)
    #: Whether sections are checked as a whole, not only field by field.
    is_checked: bool = True

    @staticmethod
    def of(info: ValidationInfo) -> Reading:
        return info.context if isinstance(info.context, Reading) else Reading()

    @contextmanager
    def within(self, scope: Scope) -> Iterator[Scope]:
        """Patterns may use the names of the scope."""
        outer, self.scope = self.scope, scope
        try:
            yield scope
        finally:
            self.scope = outer

    def need(self, name: str, is_sent: bool = True) -> None:
        """Note a file that the job names; a Fault when it is missing or empty, or when
        the directory is sent what is in it though it lies outside of the job's folder:
        a job of somebody else must not send the user's files."""
        place = self._find(name)
        self.named[name] = place if isinstance(place, Path) else None
        if not isinstance(place, Path):
            return
        if is_sent and not self._may_send(name, place):
            raise Fault(
                f"expected a file in the folder of the job, got {got(name)}",
                "copy it there, or name it in the command: --set, or --var with `vars`",
            )
        if not place.is_file():
            hint = f"paths are relative to the job file: {str(place)!r}"
            raise Fault(f"expected a file, got {got(name)}", hint)
        if place.stat().st_size == 0:
            hint = f"there is nothing in {str(place)!r}"
            raise Fault(f"expected a file with a line at least, got {got(name)}", hint)

    def text_of(self, name: str) -> str | None:
        """The text of a file, UTF-8; None where files are not looked into."""
        place = self._find(name)
        if isinstance(place, Path):
            try:
                if place.stat().st_size > MAX_BYTES:
                    raise expected(f"a file of at most {MAX_BYTES} bytes", name)
                place = place.read_bytes()
            except FileNotFoundError:
                return None  # a fault of its own: need()
            except OSError as error:
                raise Fault(
                    f"{name!r} cannot be read: {error.strerror}", "name a readable file"
                ) from None
        if place is None:
            return None
        try:
            return place.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = place[: error.start].count(b"\n") + 1
            raise Fault(
                f"{name!r} line {line}: expected UTF-8, got 0x{place[error.start]:02x}",
                "save the file as UTF-8",
            ) from None

    def _may_send(self, name: str, place: Path) -> bool:
        """Whether a file lies in the folder of the job, or the command names it; one
        that a link of the folder leads to is not named so."""
        if self.base is None:
            return True
        with suppress(ValueError):  # a NUL in the name
            if Path(os.path.realpath(place)).is_relative_to(
                os.path.realpath(self.base)
            ):
                return True
        if Path(os.path.normpath(place)).is_relative_to(
            os.path.normpath(self.base.absolute())
        ):
            return False
        whole = rf"(?<![^=:,\[{{\s\"']){re.escape(name)}(?![^\]}},\s\"'])"
        return any(re.search(whole, text) for text in self.command)

    def _find(self, name: str) -> Path | bytes | None:
        if name in self.places:
            return self.places[name]
        return None if self.base is None else (self.base / name).absolute()


def names_in(info: ValidationInfo) -> Mapping[str, int]:
    """The names that patterns may use, and their variables."""
    return Reading.of(info).scope.names
