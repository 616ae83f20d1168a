# SPDX-License-Identifier: Apache-2.0
"""Runs beside each other: every difference of what was run, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldapslam.reports.comparison import comparison_tables, differences_of
from ldapslam.reports.formats.text import render_table
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from support.store import JOB_TEXT, RUN_ID, Scenario, fill


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    with Store.open(str(tmp_path / "results.sqlite")) as store:
        return summarise(store, fill(store, Scenario()))


def changed(summary: Summary, run_id: str, **fields: Any) -> Summary:
    return replace(summary, run=replace(summary.run, run_id=run_id, **fields))


def of_server(cache: int, addresses: str) -> dict[str, Any]:
    uri = f"ldap://{addresses}"
    facts = {"vendor": "OpenLDAP", "settings": {"olcThreads": cache}}
    return {
        "servers": {uri: {"addresses": addresses}},
        "observations": {uri: {"facts": facts, "before": {"operations": {"add": 7}}}},
    }


def test_the_same_run_twice_does_not_differ(summary: Summary) -> None:
    again = changed(
        summary, "again", t0_utc="2027-01-01T00:00:00Z", submitted_by="bob@laptop"
    )
    assert differences_of([summary, again]) == {}


def test_what_was_changed_is_named_with_each_runs_value(summary: Summary) -> None:
    before = changed(summary, "before", manifest=of_server(16, "ds1"))
    after = changed(
        summary,
        "after",
        manifest=of_server(32, "ds1"),
        job_text=JOB_TEXT.replace("150/s", "300/s"),
    )
    assert differences_of([before, after]) == {
        "job file · streams · 2 · load · open · rate": ["150/s", "300/s"],
        "server 1 · settings · olcThreads": ["16", "32"],
    }


def test_servers_at_other_addresses_are_compared_by_their_places(
    summary: Summary,
) -> None:
    before = changed(summary, "before", manifest=of_server(16, "ds1"))
    after = changed(summary, "after", manifest=of_server(16, "ds9"))
    assert differences_of([before, after]) == {}


def test_a_fact_that_one_run_lacks_is_a_difference(summary: Summary) -> None:
    lacking = changed(summary, "lacking", manifest={"python": "3.11.7"})
    found = differences_of([summary, lacking])
    assert found["ldapslam"] == ["0.1.0", None]


def test_figures_stand_beside_each_other(summary: Summary) -> None:
    runs, figures, _ = comparison_tables([summary, changed(summary, "again")])
    assert [row[0].text for row in runs.rows] == [RUN_ID, "again"]
    text = render_table(figures)
    assert text.count("readers.search") == 2
    assert text.count("again") == 2
