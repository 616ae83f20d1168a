# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file: no network, light, dark and print; complete without its
script, the only one that its policy lets a browser run.

The charts are inline SVG; their few ground colours become CSS variables, so that they
follow the page. jinja2 escapes everything else: names and texts of a job are data.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ldapslam.reports.charts.charts import GRID, INK, MUTED, PAPER, SHADE
from ldapslam.reports.document import Document

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    SHADE: "--shade",
    PAPER: "--paper",
}
_CODE = re.compile("`([^`]+)`")
_COLOUR = re.compile("|".join(_VARIABLES))


def render_html(document: Document, charts: Mapping[str, str]) -> str:
    """`charts`: name -> SVG, as `charts.draw` gives them."""
    environment = Environment(
        loader=PackageLoader("ldapslam.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["code"] = _with_code
    template = environment.get_template("report.html")
    script = environment.get_template("report.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        document=document,
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        charts={name: Markup(themed(svg)) for name, svg in charts.items()},
    )


def _with_code(text: str) -> Markup:
    """A text with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def themed(svg: str) -> str:
    """The chart with its ground colours taken from the page it stands in."""
    return _COLOUR.sub(lambda match: f"var({_VARIABLES[match[0]]})", svg)
