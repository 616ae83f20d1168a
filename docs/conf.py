# SPDX-License-Identifier: Apache-2.0
"""The site: `make site`. The pages are plain Markdown, as a code host shows them.

What index.md lists under its headings is the site's navigation. A link to a file of the
repository beside docs/ is a download.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from ldapslam import __version__

project = "ldapslam"
release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["generate.py"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"ldapslam {release}"
html_copy_source = False
# the anchors that code hosts give headings
myst_heading_anchors = 4
# blocks of several languages that have no colours, and YAML with an ellipsis
suppress_warnings = ["misc.highlighting_failure"]

_HERE = Path(__file__).resolve().parent
_OUTSIDE = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//[^>]*>")
_LINK = re.compile(r"\[([^]]*)\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def _with_navigation(text: str) -> str:
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    headings = ["Start", *parts[1::2]]
    for heading, part in zip(headings, parts[::2], strict=True):
        pages = [link for _, link in _LINK.findall(part) if link.endswith(".md")]
        listed = "\n".join(dict.fromkeys(pages))
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n"
    return text


def _without_outsiders(text: str, page: Path) -> str:
    """The site has no page for a folder or a README elsewhere: its name will do."""

    def named(link: re.Match[str]) -> str:
        path = (page.parent / link[2]).resolve()
        is_page = path.is_dir() or path.suffix == ".md"
        if not is_page or path.is_relative_to(_HERE):
            return link[0]
        return f"{link[1]} (`{path.relative_to(_HERE.parent)}`)"

    return _LINK.sub(named, text)


def _read(app: Any, name: str, source: list[str]) -> None:
    source[0] = _without_outsiders(source[0], _HERE / f"{name}.md")
    if name == "index":
        source[0] = _with_navigation(source[0])


def _stays_offline(app: Any, error: Exception | None) -> None:
    """Fails where a page would load something from elsewhere."""
    for page in Path(app.outdir).rglob("*.html"):
        if outside := _OUTSIDE.search(page.read_text("utf-8")):
            raise ExtensionError(f"{page.name} needs a network: {outside[0]}")


def setup(app: Any) -> None:
    app.connect("source-read", _read)
    app.connect("build-finished", _stays_offline)
