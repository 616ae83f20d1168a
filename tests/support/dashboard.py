# SPDX-License-Identifier: Apache-2.0
"""configs/grafana: what its panels ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[2] / "configs" / "grafana" / "ldapslam.json"
_SELECTOR = re.compile(r"(ldapslam_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)$")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def asked() -> dict[str, set[str]]:
    """Name of a sample -> the labels that panels and variables use of it."""
    used: dict[str, set[str]] = defaultdict(set)
    for expression, labels in _queries(dashboard()):
        for name, matchers in _SELECTOR.findall(expression):
            used[name] |= labels | set(_MATCHER.findall(matchers))
    return dict(used)


def _queries(document: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Each query, and the labels by which it groups or names what it finds."""
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            grouped = {
                label.strip()
                for names in _GROUPING.findall(target["expr"])
                for label in names.split(",")
            }
            yield target["expr"], grouped | set(_LEGEND.findall(target["legendFormat"]))
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.match(variable["query"]["query"])
            assert found is not None
            yield found[1], {found[2]}
