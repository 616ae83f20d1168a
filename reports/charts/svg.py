# SPDX-License-Identifier: Apache-2.0
"""Makes matplotlib's SVG fit to stand inside a page: pure text work.

Several charts share one HTML page, so ids get the chart's name as prefix; digits below
a hundredth of a pixel go; a title and a description say what is to be seen.
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

_PROLOGUE = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_ID = re.compile(r'\bid="([^"]+)"')
_HREF = re.compile(r'xlink:href="#([^"]+)"')
_URL = re.compile(r"url\(#([^)]+)\)")
_PATH = re.compile(r'\bd="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
_OPEN = re.compile(r"<svg\b([^>]*)>")
_SIZE = re.compile(r'\s(?:width|height)="[\d.]+pt"')


def embeddable(svg: str, name: str, title: str, description: str) -> str:
    svg = _PROLOGUE.sub("", svg)
    svg = _METADATA.sub("", svg)
    svg = _COMMENT.sub("", svg)
    svg = _PATH.sub(lambda match: _DIGITS.sub(r"\1", match[0]), svg)
    svg = _ID.sub(rf'id="{name}-\1"', svg)
    svg = _HREF.sub(rf'xlink:href="#{name}-\1"', svg)
    svg = _URL.sub(rf"url(#{name}-\1)", svg)
    opening = _OPEN.search(svg)
    if opening is None:
        return svg
    attributes = _SIZE.sub("", opening[1])
    head = (
        f'<svg{attributes} role="img" '
        f'aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-description">{escape(description)}</desc>'
    )
    return svg[: opening.start()] + head + svg[opening.end() :].strip() + "\n"
