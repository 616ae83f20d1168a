# SPDX-License-Identifier: Apache-2.0
"""The note about entries that a lost agent may have left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ldapslam.reports.model import Summary
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results.facts import AgentFacts
from ldapslam.results.store import Store
from support.session_store import AGENTS, STREAMS, fill_workload

LOST = "2026-03-01T12:00:09Z"


@pytest.fixture(autouse=True)
def churn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The adds and deletes of the run: 760 and 551 of both agents."""
    steps = STREAMS["churn"]
    add = replace(steps["add"], plan={"cleans_up": True})
    delete = replace(steps["delete"], per_s=30, plan={"deletes_of": "add"})
    monkeypatch.setitem(steps, "add", add)
    monkeypatch.setitem(steps, "delete", delete)
    return steps


def summary(*lost: str, cleaned: tuple[str, ...] = ()) -> Summary:
    """A run that lost these agents; they removed nothing, but for `cleaned`."""
    with Store.open("sqlite://") as store:
        run_id = fill_workload(store)
        for agent in lost:
            store.add_event(run_id, "agent_lost", f"agent {agent!r}: gone", LOST)
            if agent not in cleaned:
                store.put_agent(run_id, agent, AgentFacts(clean_up=None))
        return summarise(store, run_id)


def notes(run: Summary) -> list[str]:
    return [note for note in run.notes if "entries of load" in note]


def test_the_entries_of_a_lost_agent_are_counted_and_who_removes_them_is_told() -> None:
    run = summary("load2")
    # without the 31 that load1 had left, and has removed
    (note,) = notes(run)
    assert note.startswith("at most 178 entries of load2 are left in the directory")
    assert f"`ldapslam run --cleanup {run.run.run_id}` on its host" in note
    found = document(run)
    assert any("At most 178 entries of load2" in one for one in found.cautions)
    # the figure of load1 alone would look like all of it
    assert "Clean-up" not in dict(found.facts)


def test_all_lost_agents_are_named_with_what_they_left_together() -> None:
    (note,) = notes(summary(*AGENTS))
    assert note.startswith("at most 209 entries of load1, load2 are left")


def test_an_agent_that_was_lost_after_its_clean_up_has_left_nothing() -> None:
    assert notes(summary("load2", cleaned=("load2",))) == []
    assert notes(summary()) == []


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        pytest.param(
            *("delete", {"plan": {}}, ["at most 729 entries of load2"]),
            id="deletes take no added entry",
        ),
        pytest.param("add", {"plan": {"keeps_entries": True}}, [], id="kept"),
        # it was killed within its first interval with an add
        pytest.param(
            *("add", {"per_s": 0}, ["at most 0 entries of load2"]), id="no add reported"
        ),
    ],
)
def test_what_is_left_depends_on_the_adds_and_deletes_of_the_job(
    churn: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: dict[str, Any],
    told: list[str],
) -> None:
    monkeypatch.setitem(churn, name, replace(churn[name], **change))
    assert [note.partition(" are left")[0] for note in notes(summary("load2"))] == told
