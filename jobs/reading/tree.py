# SPDX-License-Identifier: Apache-2.0
"""A YAML text as plain data, with the position of every value in it.

Built from PyYAML's events rather than its nodes, so that hostile files are refused
before they cost anything: the size, the depth and the number of values (aliases counted
as often as they are used) are limited, and no tag can name a class. The scalars are
those of YAML 1.2's core schema: `yes`, `on` and `12:30` are texts. A mapping with a
duplicate key, a tag or a second document is a fault, and reading goes on behind it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from ldapslam.base.fault import Fault, got

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 20_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = re.compile(r"(?:~|null|Null|NULL|)")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)")
# Only the canonical form is a number: 007 and +49 are texts, as their writers mean.
_INT = re.compile(r"0|-?[1-9][0-9]{0,24}", re.ASCII)
_FLOAT = re.compile(
    r"-?(?:[0-9]{1,25}\.[0-9]{0,25}|[0-9]{1,25}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?",
    re.ASCII,
)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

NO_JOB = "is it a job file?"
_IGNORED = "<ignored>"
_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")}

# Keys that people of other tools write, and ours.
_KEY_ALIASES = {"modrdn": "modify_dn"}

#: A field: keys and list indexes from the top.
Path = tuple[str | int, ...]


class Position(NamedTuple):
    """Where a value is; line and column count from 1, None in an override."""

    file: str
    line: int | None
    column: int | None


class Finding(NamedTuple):
    """A fault and the field that it is about."""

    path: Path
    fault: Fault
    #: The fault is about the key rather than the value.
    at_key: bool = False
    #: Where it is, if not where the tree has the field.
    position: Position | None = None


@dataclass
class Tree:
    """The data of a job file (dicts, lists, scalars) and where each value stands."""

    file: str
    data: Any = None
    values: dict[Path, Position] = field(default_factory=dict)
    keys: dict[Path, Position] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    #: Fields that the file does not have, made by the type of the stream at the path.
    made: dict[Path, Path] = field(default_factory=dict)

    def cause(self, path: Path) -> Path:
        """The field of the file that a field is made of; most are their own."""
        if path in self.values:
            return path
        for length in range(len(path), 0, -1):
            stream = self.made.get(path[:length])
            if stream is None:
                continue
            for step in reversed(path[length - 1 :]):
                if (*stream, "options", step) in self.values:
                    return (*stream, "options", step)
            return (*stream, "type")
        return path

    def position(self, path: Path, at_key: bool) -> tuple[Path, Position]:
        """The longest part of the path that the file has, and where that is."""
        path = self.cause(path)
        while path and path not in self.values:
            path = path[:-1]
        if at_key and path in self.keys:
            return path, self.keys[path]
        return path, self.values.get(path, Position(self.file, 1, 1))


class _Stop(Exception):
    """Reading cannot go on; the finding is recorded."""


def read_tree(text: bytes | str, file: str) -> Tree:
    """The tree of a YAML text; after a syntax error `data` is None."""
    tree = Tree(file)
    try:
        _Composer(tree).compose(_decode(tree, text))
    except _Stop:
        tree.data = None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = _position(tree.file, mark)
        tree.findings.append(
            Finding((), _syntax_fault(error, text, position), position=position)
        )
        tree.data = None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        tree.findings.append(_special_character(tree, text, error))
        tree.data = None
    return tree


def _decode(tree: Tree, text: bytes | str) -> str:
    size = len(text)
    if size > MAX_BYTES:
        fault = Fault(
            f"expected a file of at most {MAX_BYTES} bytes, got {size}",
            NO_JOB,
        )
        tree.findings.append(Finding((), fault))
        raise _Stop
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = Fault(
            f"expected UTF-8, got the byte 0x{text[error.start]:02x}",
            "save the file as UTF-8",
        )
        position = _end_of(tree.file, text[: error.start].decode(errors="replace"))
        tree.findings.append(Finding((), fault, position=position))
        raise _Stop from None


class _Composer:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.anchors: dict[str, tuple[Any, dict[Path, Position]]] = {}
        self.open_anchors: set[str] = set()
        # Paths in the order of their values, so that those below an anchor are a slice.
        self.order: list[Path] = []
        self.count = 0

    def compose(self, text: str) -> None:
        events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.stop(
                        event, "expected one document, got a second one", "remove '---'"
                    )
            elif isinstance(event, yaml.NodeEvent):
                self.tree.data = self.value(event, events, ())

    def stop(self, event: Any, reason: str, hint: str | None = None) -> None:
        self.find((), event, Fault(reason, hint))
        raise _Stop

    def find(self, path: Path, event: Any, fault: Fault) -> None:
        position = _position(self.tree.file, event.start_mark)
        self.tree.findings.append(Finding(path, fault, position=position))

    def check_limits(self, event: Any, more: int, depth: int) -> None:
        self.count += more
        if self.count > MAX_VALUES:
            self.stop(
                event,
                f"expected at most {MAX_VALUES} values, got more",
                "aliases count as often as they are used",
            )
        if depth > MAX_DEPTH:
            self.stop(event, f"nested more than {MAX_DEPTH} levels deep", NO_JOB)

    def record(self, path: Path, position: Position) -> None:
        self.order.append(path)
        self.tree.values[path] = position

    def value(self, event: Any, events: Iterator[Any], path: Path) -> Any:
        """The value that begins with `event`; its positions are recorded below path."""
        self.check_limits(event, 1, len(path))
        first = len(self.order)
        self.record(path, _position(self.tree.file, event.start_mark))
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, path)
        if event.tag not in (None, "!") and event.tag not in _CORE_TAGS:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.find(
                path,
                event,
                Fault(f"expected no tag, got {tag!r}", "remove the tag"),
            )
        if event.anchor:
            self.open_anchors.add(event.anchor)
        value = self.content(event, events, path)
        if event.anchor:
            self.open_anchors.discard(event.anchor)
            below = {
                other[len(path) :]: self.tree.values[other]
                for other in self.order[first:]
            }
            self.anchors[event.anchor] = value, below
        return value

    def alias(self, event: Any, path: Path) -> Any:
        if event.anchor in self.open_anchors:
            self.stop(
                event, f"the alias '*{event.anchor}' contains itself", "write it out"
            )
        if event.anchor not in self.anchors:
            self.stop(
                event,
                f"the alias '*{event.anchor}' has no anchor",
                f"write &{event.anchor} before the value, above this line",
            )
        value, below = self.anchors[event.anchor]
        self.check_limits(event, len(below), len(path) + max(map(len, below)))
        # A fault in an aliased value is shown where the value is written.
        for other, position in below.items():
            if other:
                self.record((*path, *other), position)
        return value

    def content(self, event: Any, events: Iterator[Any], path: Path) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            for item in events:
                if isinstance(item, yaml.SequenceEndEvent):
                    break
                items.append(self.value(item, events, (*path, len(items))))
            return items
        return self.mapping(events, path)

    def mapping(self, events: Iterator[Any], path: Path) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                self.stop(event, "expected a key of text", "quote a text with [ or {")
            key = _KEY_ALIASES.get(event.value, event.value)
            if key in content or key == "<<":
                fault = Fault("merge keys are not supported", "write the keys out")
                if key in content:
                    first = self.tree.keys[(*path, key)].line
                    reason = f"the key {key!r} is given twice, first in line {first}"
                    fault = Fault(reason, "remove one of the two")
                self.find((*path, key), event, fault)
                # Read on, below a path that no field has.
                self.value(next(events), events, (*path, key, _IGNORED))
                continue
            self.tree.keys[(*path, key)] = _position(self.tree.file, event.start_mark)
            content[key] = self.value(next(events), events, (*path, key))
        return content

    def scalar(self, event: Any, path: Path) -> Any:
        text: str = event.value
        if not event.implicit[0]:
            return text
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        if _NOT_FINITE.fullmatch(text):
            return math.nan if text.lower() == ".nan" else math.inf
        return text


def _position(file: str, mark: Any) -> Position:
    if mark is None:
        return Position(file, None, None)
    return Position(file, mark.line + 1, mark.column + 1)


def _end_of(file: str, before: str) -> Position:
    """Where the text after `before` begins."""
    lines = before.split("\n")
    return Position(file, len(lines), len(lines[-1]) + 1)


def _syntax_fault(
    error: yaml.MarkedYAMLError, text: bytes | str, position: Position
) -> Fault:
    problem = error.problem or "not readable"
    hint = "is the line before indented alike, and every [, { and quote closed?"
    if "mapping values are not allowed" in problem:
        hint = "quote a text with ': ' in it, and indent the keys of a mapping alike"
    elif "tab character" in problem or _is_tab(text, position):
        return Fault("a tab where YAML wants spaces", "indent with spaces")
    elif before := _without_space(text, position):
        key, value = before
        hint = f"write a space after the colon: {key}: {value}"
    elif "expected ',' or" in problem:
        hint = "close the [ or {, and quote a text that has one of [ ] { } , in it"
    elif "cannot start any token" in problem:
        hint = "quote a text that begins with a special character"
    return Fault(f"not YAML: {problem}", hint)


def _without_space(text: bytes | str, position: Position) -> tuple[str, str] | None:
    """Key and value of the line before, where nothing parts them."""
    content = text if isinstance(text, str) else text.decode("utf-8", "replace")
    lines = content.splitlines()[: (position.line or 1) - 1]
    match = re.fullmatch(r"[\s-]*([a-z_]+):([^\s/].*)", lines[-1]) if lines else None
    return match and (match[1], match[2])


def _is_tab(text: bytes | str, position: Position) -> bool:
    lines = text.splitlines()
    line = lines[(position.line or 1) - 1 :][:1]
    return bool(line) and line[0][(position.column or 1) - 1 :][:1] in ("\t", b"\t")


def _special_character(tree: Tree, text: bytes | str, error: yaml.YAMLError) -> Finding:
    content = text if isinstance(text, str) else text.decode("utf-8-sig", "replace")
    match = re.search(
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", content
    )
    if match is None:
        return Finding((), Fault(f"not YAML: {str(error).splitlines()[0]}", NO_JOB))
    position = _end_of(tree.file, content[: match.start()])
    fault = Fault(
        f"expected text, got the control character {got(match[0])}", "remove it"
    )
    return Finding((), fault, position=position)
