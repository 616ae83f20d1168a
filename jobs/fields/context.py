# SPDX-License-Identifier: Apache-2.0
"""What the validation of a job knows beside the value at hand: pydantic's `context`.

Those are the files that the job names, and the names that patterns may use. Without a
context no file is looked into and no name is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationInfo

from ldapslam.base.fault import Fault, expected, got
from ldapslam.jobs.requests.scope import Scope

#: How the name of a lab's own folder begins, which any job may use.
LAB_FOLDER = "ldapslam-lab-"
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

    def need_on_host(self, path: str) -> str:
        """Check a file that each agent has on its own host; return its path."""
        if not os.path.isabs(path):
            here = os.path.abspath((self.base or Path()) / path)
            hint = f"each agent reads it on its own host, such as {here}"
            raise expected("an absolute path", path, hint)
        return self._check_place(path)

    def need(self, name: str) -> str:
        """Check and note a file that agents are sent; return its name."""
        self.note(self._check_place(name))
        return name

    def note(self, name: str) -> None:
        """Note a file that agents are sent; a Fault when it is missing or empty."""
        place = self._find(name)
        self.named[name] = place if isinstance(place, Path) else None
        if not isinstance(place, Path):
            return
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

    def _check_place(self, name: str) -> str:
        """Return the name. Raise a Fault for a file of this host that lies neither in
        the job's folder nor in a lab's, and is not named by the command, or only by a
        link of the folder: a job of somebody else must not use the user's files."""
        if self.base is None or not os.path.isfile(place := self.base / name):
            return name
        real, base = Path(os.path.realpath(place)), os.path.abspath(self.base)
        is_in_lab = any(one.name.startswith(LAB_FOLDER) for one in real.parents)
        if is_in_lab or real.is_relative_to(os.path.realpath(base)):
            return name
        is_link = Path(os.path.abspath(place)).is_relative_to(base)
        whole = rf"(?<![^=:,\[{{\s\"']){re.escape(name)}(?![^\]}},\s\"'])"
        if not is_link and any(re.search(whole, text) for text in self.command):
            return name
        raise Fault(
            f"expected a file in the folder of the job, got {got(name)}",
            f"copy it there, or give its key in the command: --set KEY={name}",
        )

    def _find(self, name: str) -> Path | bytes | None:
        if name in self.places:
            return self.places[name]
        return None if self.base is None else (self.base / name).absolute()


def names_in(info: ValidationInfo) -> Mapping[str, int]:
    """The names that patterns may use, and their variables."""
    return Reading.of(info).scope.names
