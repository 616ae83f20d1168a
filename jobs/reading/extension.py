# SPDX-License-Identifier: Apache-2.0
"""A job that `extends` another: that one's file, changed by this one's.

Mappings are changed key by key, lists whose items all have names item by item, in the
order of the other file; everything else is replaced as a whole, and so is a stream's
`load`. A key set to null is taken away. Faults keep the file
and the line where a value is written.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.reading.tree import Finding, Path, Position, Tree, read_tree

KEY = "extends"

_MOST = 8
_MISSING = object()


def extend(tree: Tree, reading: Reading) -> bool:
    """Change the tree into what it extends, changed by it. False when that is not
    possible: findings say why."""
    before = len(tree.findings)
    _extend(tree, reading, [FilePath(tree.file).name])
    return len(tree.findings) == before


def _extend(tree: Tree, reading: Reading, files: list[str]) -> None:
    if KEY not in tree.data:
        return
    name = tree.data.pop(KEY)
    try:
        other = _other(name, reading, files)
    except Fault as fault:
        tree.findings.append(Finding((KEY,), fault))
        return
    if isinstance(other.data, dict):
        _extend(other, reading, [*files, name])
        merged = _Merged(tree, other)
        tree.data = merged.data
        tree.values, tree.keys = merged.values, merged.keys
    for one in other.findings:
        where = one.position or other.position(one.path, one.at_key)[1]
        tree.findings.append(one._replace(position=where))


def _other(name: Any, reading: Reading, files: list[str]) -> Tree:
    if not isinstance(name, str) or not name:
        raise expected("the name of a job file", name)
    if name in files or len(files) > _MOST:
        raise Fault(
            f"{name!r} extends itself, through {' and '.join(files)}"
            if name in files
            else f"more than {_MOST} files extend one another",
            "take one of them away",
        )
    reading.note(name)
    text = reading.text_of(name)
    other = read_tree(text if text is not None else "{}", name)
    if not isinstance(other.data, dict) and not other.findings:
        raise expected(f"a mapping in {name!r}", other.data, "is it a job file?")
    return other


class _Merged:
    def __init__(self, new: Tree, old: Tree) -> None:
        self.new, self.old = new, old
        self.values: dict[Path, Position] = {}
        self.keys: dict[Path, Position] = {}
        self.data = self._both((), new.data, (), old.data, ())

    def _both(self, at: Path, new: Any, new_at: Path, old: Any, old_at: Path) -> Any:
        """What stands at `at`, of what stands at these places of the two."""
        ours, theirs = _items(new), _items(old)
        if ours is None or theirs is None or type(new) is not type(old):
            return self._copy(at, self.new, new, new_at)
        self._here(at, self.new, new_at)
        merged: dict[str, Any] = {}
        for key in {**theirs, **ours}:
            here = (*at, key if isinstance(new, dict) else len(merged))
            step, one = ours.get(key, ("", _MISSING))
            other_step, other = theirs.get(key, ("", _MISSING))
            if one is None:
                continue
            if one is _MISSING:
                place = (*old_at, other_step)
                merged[key] = self._copy(here, self.old, other, place)
            elif other is _MISSING or (at[:1] == ("streams",) and key == "load"):
                merged[key] = self._copy(here, self.new, one, (*new_at, step))
            else:
                merged[key] = self._both(
                    here, one, (*new_at, step), other, (*old_at, other_step)
                )
        return merged if isinstance(new, dict) else list(merged.values())

    def _copy(self, at: Path, tree: Tree, value: Any, place: Path) -> Any:
        self._here(at, tree, place)
        if isinstance(value, dict):
            for key, one in value.items():
                self._copy((*at, key), tree, one, (*place, key))
        elif isinstance(value, list):
            for index, one in enumerate(value):
                self._copy((*at, index), tree, one, (*place, index))
        return value

    def _here(self, at: Path, tree: Tree, place: Path) -> None:
        for ours, theirs in ((self.values, tree.values), (self.keys, tree.keys)):
            if place in theirs:
                ours[at] = theirs[place]


def _items(value: Any) -> dict[str, tuple[str | int, Any]] | None:
    """Key or name -> step and value; None for what is replaced as a whole."""
    if isinstance(value, dict):
        return {key: (key, one) for key, one in value.items()}
    if not isinstance(value, list):
        return None
    named: dict[str, tuple[str | int, Any]] = {
        one["name"]: (place, one)
        for place, one in enumerate(value)
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    }
    return named if named and len(named) == len(value) else None
