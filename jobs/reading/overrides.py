# SPDX-License-Identifier: Apache-2.0
"""`--set path=value`: changes to a job's tree before it is checked.

A path is keys and list indexes joined by dots; an item of a list that has a `name` may
be called by it: `streams.readers.load.open.rate=50/s`, `streams.0.target=replica`,
`streams[0].target=replica`. The value is YAML. Missing mappings are made. Faults have
the position `--set:N`, N counting from 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ldapslam.base.fault import Fault, did_you_mean, got, path_text
from ldapslam.jobs.reading.tree import Finding, Path, Position, Tree, read_tree

_EXAMPLE = "such as --set run.duration=30s"


def apply_overrides(tree: Tree, overrides: Sequence[str]) -> None:
    """Changes the tree; what cannot be applied becomes a finding."""
    for number, override in enumerate(overrides, 1):
        file = f"--set:{number}"
        try:
            _apply(tree, override, file)
        except Fault as fault:
            position = Position(file, None, None)
            tree.findings.append(Finding((), fault, position=position))


def _apply(tree: Tree, override: str, file: str) -> None:
    path_text, equals, value_text = override.partition("=")
    if not equals or not path_text.strip():
        raise Fault(f"expected path=value, got {got(override)}", _EXAMPLE)
    value = read_tree(value_text, file)
    if value.findings:
        raise value.findings[0].fault
    steps = re.sub(r"\[(\d+)\]", r".\1", path_text.strip()).split(".")
    if not all(steps):
        raise Fault(f"expected a path such as 'run.duration', got {got(path_text)}")
    path: Path = ()
    container = tree.data
    for step in steps[:-1]:
        key = _key(container, step, path)
        if isinstance(container, dict) and container.get(key) is None:
            container[key] = {}
            tree.values[(*path, key)] = Position(file, None, None)
        container, path = container[key], (*path, key)
    key = _key(container, steps[-1], path)
    container[key] = value.data
    _move_positions(tree, (*path, key), value)


def _key(container: Any, step: str, path: Path) -> Any:
    """The dict key or list index that a step of a path means."""
    where = path_text(path) or "the job"
    if isinstance(container, dict):
        return step
    if not isinstance(container, list):
        raise Fault(f"{where} is {got(container)}, it has no {step!r}", _EXAMPLE)
    if step.isdecimal():
        if int(step) < len(container):
            return int(step)
        raise Fault(f"{where} has {len(container)} items, it has no number {step}")
    names = [item.get("name") for item in container if isinstance(item, dict)]
    if step in names:
        return [
            isinstance(item, dict) and item.get("name") == step for item in container
        ].index(True)
    known = [name for name in names if isinstance(name, str)]
    raise Fault(
        f"{where} is a list, it has no item named {step!r}",
        did_you_mean(step, known, "names") if known else "use its index, from 0",
    )


def _move_positions(tree: Tree, path: Path, value: Tree) -> None:
    for positions in (tree.values, tree.keys):
        for old in [old for old in positions if old[: len(path)] == path]:
            del positions[old]
    here = Position(value.file, None, None)
    for below in value.values:
        tree.values[(*path, *below)] = here
