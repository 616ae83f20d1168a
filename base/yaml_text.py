# SPDX-License-Identifier: Apache-2.0
"""Parts of job files written as YAML that reads back as the same tree."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

WIDTH = 88

#: What YAML 1.2 or 1.1 might read as a number although it is meant as text.
_NUMBER_LIKE = re.compile(r"[-+]?\.?\d[\d_.,:eExXoObBa-fA-F+-]*|[-+]?\.(inf|nan)", re.I)


class _Dumper(yaml.SafeDumper):
    """Text that could be read as something else is quoted; lists are indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "'" if _NUMBER_LIKE.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def tree_lines(tree: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    text = yaml.dump(
        dict(tree),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=10_000,  # a folded text is hard to read, and to search for
    )
    for line in text.splitlines():
        yield f"{' ' * indent}{line}"


def comment_lines(text: str, indent: int = 0) -> Iterator[str]:
    """A text from anywhere as comment lines; no character of it can end the comment."""
    prefix = f"{' ' * indent}# "
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    for line in textwrap.wrap(
        shown, WIDTH - len(prefix), break_long_words=False, break_on_hyphens=False
    ):
        yield f"{prefix}{line}"
