# SPDX-License-Identifier: Apache-2.0
"""A job composed of a command's options: the same as a job file, and printed as one.

Options put their values unread into the job; the job's own checks read them, so that
options and job files cannot differ in what they accept. `options` has the option that
each field came from: faults are told in those words.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ldapslam.base.errors import JobError, JobErrors
from ldapslam.base.fault import path_text
from ldapslam.base.yaml_text import comment_lines, tree_lines
from ldapslam.jobs.load import changed_tree, load_job_text
from ldapslam.jobs.model import Job


@dataclass
class ComposedJob:
    """The tree of a job file, under construction; a JobSource."""

    #: The name of its command.
    name: str
    tree: dict[str, Any] = field(default_factory=dict)
    #: Field in dotted form -> the option as typed.
    options: dict[str, str] = field(default_factory=dict)
    #: Comments above keys of the top level.
    comments: dict[str, str] = field(default_factory=dict)
    #: Lines at the head of the file.
    head: Sequence[str] = ()

    def put(self, path: Sequence[str | int], value: Any, option: str) -> None:
        """Set a field that `option` stands for; the levels above it are made."""
        place: Any = self.tree
        for key, following in itertools.pairwise(path):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(key, int):
                if key == len(place):
                    place.append(empty)
                place = place[key]
            else:
                place = place.setdefault(key, empty)
        last = path[-1]
        if isinstance(last, int) and last == len(place):
            place.append(value)
        else:
            place[last] = value
        self.options[path_text(tuple(path))] = option

    def text(self) -> str:
        """The job file, with comments."""
        lines = [f"# {line}".rstrip() for line in self.head]
        for key, value in self.tree.items():
            lines += comment_lines(self.comments.get(key, ""))
            lines += tree_lines({key: value})
        return "\n".join(lines) + "\n"

    def load(self, overrides: Sequence[str] = ()) -> Job:
        """The job; faults name the options that they come from."""
        try:
            text = self.text()
            return load_job_text(
                text,
                file="",
                base=Path.cwd(),
                overrides=overrides,
                command=(text, *overrides),
            )
        except JobErrors as error:
            raise JobErrors(
                [self._of_option(fault) for fault in error.faults]
            ) from None

    def printed(self, overrides: Sequence[str]) -> str:
        """The job file that would run, with comments, changed by overrides."""
        if not overrides:
            return self.text().rstrip("\n")
        tree = changed_tree(self.text(), "", Path.cwd(), overrides)
        return replace(self, tree=tree).text().rstrip("\n")

    def content(self) -> bytes:
        return self.text().encode()

    def _of_option(self, fault: JobError) -> JobError:
        if fault.file.startswith("--set"):
            return fault
        return JobError(
            fault.reason, file=self._option(fault.path) or fault.path, hint=fault.hint
        )

    def _option(self, path: str) -> str:
        """The option of the field, of the nearest one above it, or of one below it."""
        found = [one for one in self.options if _is_in(path, one)]
        if found:
            return self.options[max(found, key=len)]
        inner = [one for one in self.options if path and _is_in(one, path)]
        return self.options[inner[0]] if inner else ""


def _is_in(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
