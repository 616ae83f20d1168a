# SPDX-License-Identifier: Apache-2.0
"""Template files in the notation of MakeLDIF: constants, branches and templates.

Their structure alone; tags.py has the tags within values. An add operation takes one
template of a file (operations/add.py), a population all branches with what is below
them (dataset/population.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ldapslam.base.fault import Collected, Fault, did_you_mean, got, unknown
from ldapslam.jobs.requests.filter import ATTRIBUTE

_LINE = re.compile(rf"({ATTRIBUTE}):[ \t]*(.*)", re.ASCII)
_DEFINE = re.compile(r"define[ \t]+([^=\s]+)[ \t]*=[ \t]*(.*)", re.IGNORECASE)
_BELOW = re.compile(r"([^:]+?)[ \t]*(?::[ \t]*(\S*))?")
_CONSTANT = re.compile(r"\[([^\[\]]+)\]")
_MAX_COUNT = 1 << 60


@dataclass(frozen=True)
class Line:
    number: int
    attribute: str
    text: str


@dataclass(frozen=True)
class Below:
    """A `subordinateTemplate` line: entries of a template below each entry."""

    line: int
    template: str
    count: int


@dataclass
class EntryTemplate:
    """One template of a file, as written; constants are filled in."""

    file: str
    name: str
    line: int
    rdn: tuple[str, ...] = ()
    extends: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    below: list[Below] = field(default_factory=list)

    def no_rdn(self) -> Fault:
        reason = f"the template {self.name!r} has no rdnAttr"
        return file_fault(
            self.file, self.line, reason, "add a line such as rdnAttr: uid"
        )


@dataclass
class Branch:
    """An entry that is there once."""

    dn: str
    line: int
    lines: list[Line] = field(default_factory=list)
    below: list[Below] = field(default_factory=list)


@dataclass
class TemplateFile:
    name: str
    #: In the order of the file.
    branches: list[Branch] = field(default_factory=list)
    templates: dict[str, EntryTemplate] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    #: Constants that nothing defines; others stand in for them, so that what else is
    #: wrong can be found.
    undefined: Collected = field(default_factory=Collected)


def file_fault(file: str, number: int, reason: str, hint: str | None = None) -> Fault:
    return Fault(
        f"{file}:{number}: {reason}",
        hint or "`ldapslam describe templates` explains the notation",
    )


def parse_file(
    text: str,
    file: str,
    constants: Mapping[str, str] | None = None,
    entries: int | None = None,
) -> TemplateFile:
    """The parts of a file; Faults name the lines. Those in `undefined` are the caller's
    to raise. `constants` replace those of the file, `entries` the count of its first
    `subordinateTemplate`, or the constant that stands there."""
    given = dict(constants or {})
    scaled = None
    if entries is not None:
        scaled = _first_count(text, file)
        if scaled[1] is not None:
            given[scaled[1]] = str(entries)
    parser, found = _Parser(file, given), Collected()
    for number, raw in enumerate(text.splitlines(), 1):
        if scaled == (number, None):
            uncounted = raw.rpartition(":")[0] if raw.count(":") > 1 else raw
            raw = f"{uncounted}:{entries}"
        with found.each():
            parser.line(number, raw.rstrip())
    parsed = parser.parsed
    for name in given:
        if name not in parsed.constants:
            where = f" of {file}"
            found.add(unknown("constant", name, parsed.constants, where=where))
    if found:
        with found.each():
            parsed.undefined.stop()
    found.stop()
    return parsed


def _first_count(text: str, file: str) -> tuple[int, str | None]:
    """The line with the first count, and the name of the constant that it is."""
    for number, raw in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(raw.rstrip())
        if match and match[1].lower() == "subordinatetemplate":
            _, _, count = match[2].partition(":")
            constant = _CONSTANT.fullmatch(count.strip())
            return number, constant[1] if constant else None
    raise Fault(
        f"{file} has no subordinateTemplate whose count could be changed",
        "add one to a branch: subordinateTemplate: NAME:COUNT",
    )


class _Parser:
    def __init__(self, file: str, given: Mapping[str, str]) -> None:
        self.parsed = TemplateFile(file)
        self.given = given
        self.current: EntryTemplate | Branch | None = None

    def fault(self, number: int, reason: str, hint: str | None = None) -> Fault:
        return file_fault(self.parsed.name, number, reason, hint)

    def line(self, number: int, line: str) -> None:
        if not line:
            self.current = None
            return
        if line.startswith("#"):
            return
        if match := _DEFINE.fullmatch(line):
            value = self.given.get(match[1], match[2])
            self.parsed.constants[match[1]] = self.filled(value)
            return
        match = _LINE.fullmatch(line)
        if match is None:
            raise self.fault(number, f"expected ATTRIBUTE: VALUE, got {got(line)}")
        if line.startswith("::", match.end(1)):
            raise self.fault(
                number,
                f"expected ATTRIBUTE: VALUE, got base64 in {got(line)}",
                "write the value as it is: base64 is made where it must be",
            )
        key, value = match[1].lower(), self.filled(match[2])
        if key == "branch":
            dn = self.with_constants(number, value, lambda name: f"o={name}")
            self.current = Branch(dn.replace("=o=", "="), number)
            self.parsed.branches.append(self.current)
        elif key == "template":
            self.current = EntryTemplate(self.parsed.name, value, number)
            if value in self.parsed.templates:
                raise self.fault(number, f"the template {value!r} is given twice")
            self.parsed.templates[value] = self.current
        elif self.current is None:
            # what follows up to the next empty line belongs to it
            self.current = EntryTemplate(self.parsed.name, "", number)
            raise self.fault(
                number, f"expected 'template: NAME' first, got {got(line)}"
            )
        else:
            self.part(self.current, Line(number, match[1], value))

    def filled(self, text: str) -> str:
        for name, value in self.parsed.constants.items():
            text = text.replace(f"[{name}]", value)
        return text

    def with_constants(
        self, number: int, text: str, stand_in: Callable[[str], str]
    ) -> str:
        """Nothing else has brackets there."""
        constants = self.parsed.constants
        for name in _CONSTANT.findall(text):
            fault = self.fault(
                number,
                f"no constant {name!r} is defined above this line",
                did_you_mean(name, constants, "constants")
                if constants
                else f"such as define {name}=TEXT",
            )
            self.parsed.undefined.add(fault)
            text = text.replace(f"[{name}]", stand_in(re.sub(r"\W", "", name)))
        return text

    def part(self, current: EntryTemplate | Branch, line: Line) -> None:
        key = line.attribute.lower()
        if key == "subordinatetemplate":
            text = self.with_constants(line.number, line.text, lambda _: "1")
            current.below.append(self.below(replace(line, text=text)))
        elif isinstance(current, Branch):
            current.lines.append(line)
        elif key == "rdnattr":
            current.rdn = tuple(part.strip().lower() for part in line.text.split("+"))
        elif key == "extends":
            current.extends.append(line.text)
        else:
            current.lines.append(line)

    def below(self, line: Line) -> Below:
        match = _BELOW.fullmatch(line.text)
        count = (match[2] or "") if match else ""
        if (
            match is None
            or not (count.isascii() and count.isdigit() and len(count) < 20)
            or int(count) > _MAX_COUNT
        ):
            raise self.fault(
                line.number,
                f"expected subordinateTemplate: NAME:COUNT, got {got(line.text)}",
                "such as subordinateTemplate: person:10000",
            )
        return Below(line.number, match[1], int(count))


def constant_hint(text: str, constants: Mapping[str, str]) -> str | None:
    """Which constant a [name] in a value may stand for, if one looks like it."""
    for name in _CONSTANT.findall(text):
        hint = did_you_mean(name, constants, "constants")
        if hint.startswith("did"):
            return hint
    return None


def extended(
    template: EntryTemplate,
    templates: Mapping[str, EntryTemplate],
    below: tuple[str, ...] = (),
) -> EntryTemplate:
    """A template with those that it extends: their lines come first."""
    whole = EntryTemplate(template.file, template.name, template.line, template.rdn)
    for name in template.extends:
        if name not in templates or name in (*below, template.name):
            reason = f"cannot extend {name!r}"
            hint = did_you_mean(name, set(templates) - {template.name}, "templates")
            raise file_fault(template.file, template.line, reason, hint)
        other = extended(templates[name], templates, (*below, template.name))
        whole.rdn = whole.rdn or other.rdn
        whole.lines += other.lines
        whole.below += other.below
    whole.lines += template.lines
    whole.below += template.below
    return whole
