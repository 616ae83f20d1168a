# SPDX-License-Identifier: Apache-2.0
"""configs/grafana/ldapslam.json is a dashboard as Grafana's own models have it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from support.dashboard import asked, dashboard


def lost(ours: Any, known: Any, path: str = "$") -> Iterator[str]:
    """Where ours has what the model does not know, or reads otherwise."""
    if isinstance(ours, dict) and isinstance(known, dict):
        for key, value in ours.items():
            if value is not None:
                yield from lost(value, known.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(known, list):
        if len(ours) != len(known):
            yield path
        for index, (one, other) in enumerate(zip(ours, known, strict=False)):
            yield from lost(one, other, f"{path}[{index}]")
    elif ours != known:
        yield path


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    register_default_plugins()
    ours = dashboard()
    known = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(ours)))
    assert list(lost(ours, known)) == []


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    places = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_panels_ask_for_metrics_of_every_kind() -> None:
    kinds = {name.split("_")[1] for name in asked()}
    assert kinds == {"agent", "agents", "bound", "operation", "run", "runs"} | {
        "store",
        "stream",
    }


def test_times_are_shown_by_the_percentiles_of_a_report() -> None:
    shown = [
        [target["legendFormat"] for target in panel["targets"]]
        for panel in dashboard()["panels"]
        if len(panel.get("targets", ())) > 3
        and "histogram_quantile" in panel["targets"][0]["expr"]
    ]
    assert shown == [["p50", "p90", "p95", "p99", "p99.9"]] * 2
