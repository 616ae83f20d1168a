# SPDX-License-Identifier: Apache-2.0
"""The example jobs and studies that are installed with ldapslam."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean
from ldapslam.cli.outcome import make_folder

#: Folder of configs/ -> the command that takes its files.
COMMANDS = {"jobs": "run", "studies": "study"}
#: Files that an example names, relative to itself.
_NAMED = re.compile(r"[\w./-]+\.(?:yaml|template)\b")


def example_files() -> dict[str, dict[str, Path]]:
    """Return the examples by kind and name."""
    configs = Path(str(importlib.resources.files("ldapslam.configs")))
    return {
        kind: {path.stem: path for path in sorted((configs / kind).glob("*.yaml"))}
        for kind in COMMANDS
    }


def example_named(name: str) -> Path:
    """Return the example; ConfigError when there is none of that name."""
    examples = {
        example: path
        for files in example_files().values()
        for example, path in files.items()
    }
    wanted = name.removesuffix(".yaml")
    if wanted not in examples:
        raise ConfigError(
            f"there is no example {name!r}",
            hint=did_you_mean(wanted, examples, "examples"),
        )
    return examples[wanted]


def summary_of(example: Path) -> str:
    """Return its description, with the defaults of its variables."""
    text = example.read_text("utf-8")

    def default(variable: re.Match[str]) -> str:
        match = re.search(rf"\b{variable[1]}: ([^,}}\n]+)", text)
        return match[1] if match else variable[1]

    [description] = re.findall("^description: (.*)$", text, re.M) or [""]
    return re.sub(r"\$\{(\w+)\}", default, description)


def write_example(example: Path, target: Path) -> Iterator[Path]:
    """Write an example, and the files that it names to the same folder; yield paths."""
    text = example.read_text("utf-8")
    named = _NAMED.findall(re.sub("#.*", "", text))
    for name in named:
        text = text.replace(name, Path(name).name)
    make_folder(target.parent)
    if target.exists() and target.read_text("utf-8") != text:
        raise ConfigError(
            f"the file {str(target)!r} is there already",
            hint="remove it, or name another file with -o",
        )
    target.write_text(text, "utf-8")
    yield target
    for name in named:
        inner = example.parent / name
        yield from write_example(inner, target.parent / inner.name)
