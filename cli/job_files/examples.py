# SPDX-License-Identifier: Apache-2.0
"""`job examples`: the jobs and studies that are installed with ldapslam."""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Iterator
from pathlib import Path

import click

from ldapslam.base.errors import ConfigError
from ldapslam.cli.command import command
from ldapslam.cli.console import json_option, put, put_json, put_result
from ldapslam.cli.options import FOLDER, option
from ldapslam.cli.outcome import make_folder

#: Folder of configs/ -> what it has, and the command that takes them.
_KINDS = {"jobs": "run", "studies": "study"}
#: Files that an example names, relative to itself.
_NAMED = re.compile(r"[\w./-]+\.(?:yaml|template)\b")


@command("examples")
@click.argument("name", required=False)
@option("--out DIR", "Write it to DIR, with the files that it names.", type=FOLDER)
@json_option
def examples_command(name: str | None, out: Path | None, as_json: bool) -> None:
    """List the example jobs and studies, or print the one called NAME.

    \b
      ldapslam job examples open-loop
      ldapslam job examples replicas-mix --out .
    """
    examples = _examples()
    if name is None:
        if out is not None:
            raise click.UsageError("--out needs NAME: the example to write")
        _put_list(examples, as_json=as_json)
        return
    wanted = name.removesuffix(".yaml")
    if wanted not in examples:
        close = difflib.get_close_matches(wanted, examples, 1)
        raise ConfigError(
            f"there is no example {name!r}",
            hint=f"did you mean {close[0]!r}?"
            if close
            else "`ldapslam job examples` lists them",
        )
    example = examples[wanted]
    if out is None:
        text = example.read_text("utf-8")
        put_result({"name": wanted, "text": text}, [text.rstrip()], as_json=as_json)
        return
    written = list(dict.fromkeys(_write(example, out)))
    command = f"ldapslam {_KINDS[example.parent.name]} {written[0]}"
    files = [str(path) for path in written]
    put_result({"files": files}, files, as_json=as_json, said=f"next: {command}")


def _examples() -> dict[str, Path]:
    configs = Path(str(importlib.resources.files("ldapslam.configs")))
    return {
        path.stem: path
        for kind in _KINDS
        for path in sorted((configs / kind).glob("*.yaml"))
    }


def _put_list(examples: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        put_json(
            {
                kind: {
                    name: _summary(path)
                    for name, path in examples.items()
                    if path.parent.name == kind
                }
                for kind in _KINDS
            }
        )
        return
    for kind, name_of_command in _KINDS.items():
        put(f"{kind}, for `ldapslam {name_of_command}`:")
        for name, path in examples.items():
            if path.parent.name == kind:
                put(f"  {name:<22} {_summary(path)}")


def _summary(example: Path) -> str:
    """Its description, with the defaults of its variables."""
    text = example.read_text("utf-8")

    def default(variable: re.Match[str]) -> str:
        found = re.search(rf"\b{variable[1]}: ([^,}}\n]+)", text)
        return found[1] if found else variable[1]

    [description] = re.findall("^description: (.*)$", text, re.M) or [""]
    return re.sub(r"\$\{(\w+)\}", default, description)


def _write(example: Path, out: Path) -> Iterator[Path]:
    """Write an example and what it names into one folder; the files."""
    text = example.read_text("utf-8")
    named = _NAMED.findall(re.sub("#.*", "", text))
    for name in named:
        text = text.replace(name, Path(name).name)
    make_folder(out)
    target = out / example.name
    if target.exists() and target.read_text("utf-8") != text:
        raise ConfigError(
            f"the file {str(target)!r} is there already",
            hint="remove it, or name another folder with --out",
        )
    target.write_text(text, "utf-8")
    yield target
    for name in named:
        yield from _write(example.parent / name, out)
