# SPDX-License-Identifier: Apache-2.0
"""An answer as a small picture for a web page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

#: Pixels of a character of 11 px Verdana, on average, and of the padding of a text.
_PER_CHARACTER, _PADDING = 6.6, 10
_HEIGHT = 20


def badge(label: str, answer: str, colours: Mapping[str, str]) -> str:
    """An SVG of two fields; `colours` has the answer's, dark enough for white text."""
    widths = [_PADDING * 2 + _PER_CHARACTER * len(text) for text in (label, answer)]
    whole = sum(widths)
    middles = widths[0] / 2, widths[0] + widths[1] / 2
    title = escape(f"{label}: {answer}")
    texts = "".join(
        f'<text x="{middle:.1f}" y="14" textLength="{width - 2 * _PADDING:.1f}">'
        f"{escape(text)}</text>"
        for text, middle, width in zip((label, answer), middles, widths, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole:.1f}" '
        f'height="{_HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>'
        f'<rect width="{widths[0]:.1f}" height="{_HEIGHT}" fill="#444"/>'
        f'<rect x="{widths[0]:.1f}" width="{widths[1]:.1f}" height="{_HEIGHT}" '
        f'fill="{colours[answer]}"/>'
        '<g fill="#fff" text-anchor="middle" font-size="11" '
        f'font-family="Verdana,DejaVu Sans,sans-serif">{texts}</g></svg>\n'
    )
