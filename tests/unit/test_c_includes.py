# SPDX-License-Identifier: Apache-2.0
"""The engine's includes: down between folders, and no circle of modules.

The order of the folders is the table in agent/csrc/README.md.
"""

from __future__ import annotations

import re
from pathlib import Path

CSRC = Path(__file__).resolve().parents[2] / "agent" / "csrc"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def module(path: str) -> str:
    """`x.h`, `x.c` and `x_internal.h` are one module."""
    return path.rpartition(".")[0].removesuffix("_internal")


def includes() -> dict[str, set[str]]:
    """The modules that each module includes, without itself."""
    graph: dict[str, set[str]] = {}
    for path in sorted(CSRC.glob("*/*.[ch]")):
        name = module(str(path.relative_to(CSRC)))
        found = {
            module(target if "/" in target else f"{path.parent.name}/{target}")
            for target in INCLUDE.findall(path.read_text())
        }
        graph.setdefault(name, set()).update(found - {name})
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A path of modules from one of them to itself, or nothing."""
    finished: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in finished:
            return []
        for target in sorted(graph.get(name, ())):
            if found := walk(target, [*path, name]):
                return found
        finished.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name, []))), [])


def folders() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", (CSRC / "README.md").read_text(), re.MULTILINE)


def test_every_folder_has_its_sentence() -> None:
    assert sorted(folders()) == sorted(p.name for p in CSRC.iterdir() if p.is_dir())


def test_folders_include_only_from_those_above_them_in_the_table() -> None:
    place = {folder: number for number, folder in enumerate(folders())}
    wrong = [
        f"{name} includes {target}"
        for name, targets in includes().items()
        for target in sorted(targets)
        if place[target.partition("/")[0]] > place[name.partition("/")[0]]
    ]
    assert wrong == []


def test_no_module_reaches_itself_by_its_includes() -> None:
    assert circle(includes()) == []


def test_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
