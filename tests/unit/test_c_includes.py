# SPDX-License-Identifier: Apache-2.0
"""The engine's includes: down between folders, and no circle of modules.

The order of the folders is the table in agent/csrc/README.md.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
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
    TopologicalSorter(includes()).prepare()  # it names a circle in a CycleError
