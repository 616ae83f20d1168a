# SPDX-License-Identifier: Apache-2.0
"""What the verdict and the report make of a check of replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from support.intervals import add_intervals, stored_intervals
from support.plans import changed_plan, changed_streams
from support.result_schema import result_schema
from support.store import Scenario, fill

SUPPLIER, REPLICA = "ldap://ds1.example.com", "ldap://ds2.example.com"
SUFFIX = "dc=example,dc=com"
CSN = "20260301120012.000001Z#000000#001#000000"


def found(**changes: Any) -> dict[str, Any]:
    """Of two servers that hold the same."""
    tree = {
        "suffix": SUFFIX,
        "converged": True,
        "after_s": 0.25,
        "states": {SUPPLIER: {"001": CSN}, REPLICA: {"001": CSN}},
        "behind": {},
        "stale": [],
    }
    content: dict[str, Any] = {
        "sample": None,
        "compared": 1_002,
        "entries": {SUPPLIER: 1_002, REPLICA: 1_002},
        "difference_count": 0,
        "differences": [],
    }
    return {
        "servers": [SUPPLIER, REPLICA],
        "within_s": 60.0,
        "skipped": [],
        "converged": True,
        "after_s": 0.25,
        "trees": [{**tree, **changes.pop("tree", {})}],
        "content": {**content, **changes.pop("content", {})},
        **changes,
    }


SMALL: dict[str, Any] = {
    "agents": ("load1",),
    "measure_s": 2,
    "searches_per_s": 60,
    "thresholds": (),
}


def summary_of(
    manifest: dict[str, Any],
    *,
    is_asked: bool = True,
    events: Sequence[tuple[str, str]] = (),
) -> Summary:
    scenario = Scenario(run={"manifest": manifest}, **SMALL)
    with Store.open("sqlite://") as store:
        run_id = fill(store, scenario)
        record = store.run(run_id)
        verify = {"verify": {"replication": {"within": "60s"}}} if is_asked else {}
        edited = replace(
            record, run_id="edited", plan=changed_plan(record.plan, **verify)
        )
        store.create_run(edited)
        for agent, facts in store.agents(run_id).items():
            store.put_agent("edited", agent, facts)
        add_intervals(store, "edited", stored_intervals(store, run_id))
        for kind, text in events:
            store.add_event("edited", kind, text, record.submitted_utc)
        summary = summarise(store, "edited")
    Draft202012Validator(result_schema()).validate(result_of(summary))
    return summary


def test_a_run_that_did_not_ask_has_nothing_to_say() -> None:
    summary = summary_of({}, is_asked=False)
    assert summary.verdict == "PASS"
    assert result_of(summary)["replication"] is None
    assert "Convergence" not in render_text(document(summary))


def test_servers_that_hold_the_same_pass() -> None:
    summary = summary_of({"replication": found()})
    assert (summary.verdict, summary.reasons) == ("PASS", ())
    assert result_of(summary)["replication"]["after_s"] == 0.25
    text = render_text(document(summary))
    assert "replicas hold the same" in text
    assert "0.250" in text


def test_trees_that_were_skipped_are_named() -> None:
    summary = summary_of({"replication": found(skipped=["cn=accesslog"])})
    assert summary.verdict == "PASS"
    assert "not all servers replicate it: cn=accesslog" in render_text(
        document(summary)
    )


def test_sources_that_were_left_aside_are_named() -> None:
    summary = summary_of({"replication": found(tree={"stale": ["7", "9"]})})
    assert summary.verdict == "PASS"
    text = " ".join(render_text(document(summary)).split())
    assert "left aside are the changes of 7, 9, which only some servers" in text


def test_what_could_not_be_checked_is_invalid() -> None:
    for manifest, reason in (
        ({}, "no monitor checked"),
        (
            {"replication": {"failure": "target 'ldap://x' cannot be reached"}},
            "reached",
        ),
    ):
        summary = summary_of(manifest)
        assert summary.verdict == "INVALID"
        assert reason in summary.reasons[0]
        assert "could not be checked" in render_text(document(summary))


def test_why_nobody_looked_is_said() -> None:
    events = [
        ("agent_lost", "agent 'load1': gone"),
        ("observer_failed", "the observer of load1: its process ended"),
        ("observer_overdue", "the observers of load2 took too long"),
    ]
    summary = summary_of({}, events=events)
    assert summary.verdict == "INVALID"
    assert summary.reasons[0].endswith(
        "no monitor checked: the observer of load1: its process ended: "
        "the observers of load2 took too long"
    )


def test_servers_that_did_not_converge_fail_with_who_is_behind() -> None:
    tree = {
        "converged": False,
        "after_s": None,
        "states": {SUPPLIER: {"001": CSN}, REPLICA: {}},
        "behind": {REPLICA: ["001"]},
    }
    summary = summary_of(
        {"replication": found(tree=tree, converged=False, after_s=None)}
    )
    assert summary.verdict == "FAIL"
    assert summary.reasons == (
        f"replication of {SUFFIX} did not converge within 60 s: {REPLICA} behind",
    )
    assert "behind on changes of 001" in render_text(document(summary))


def test_entries_that_differ_fail_and_are_named_with_their_attributes() -> None:
    differences = [
        {
            "server": REPLICA,
            "dn": "uid=user.1,dc=example,dc=com",
            "difference": "missing",
            "attributes": [],
        },
        {
            "server": REPLICA,
            "dn": "uid=user.2,dc=example,dc=com",
            "difference": "different",
            "attributes": ["mail", "sn"],
        },
    ]
    content = {"difference_count": 9, "differences": differences}
    summary = summary_of({"replication": found(content=content)})
    assert summary.verdict == "FAIL"
    (reason,) = summary.reasons
    for part in (
        f"9 entries differ from {SUPPLIER} after the load",
        f"{REPLICA} lacks 'uid=user.1,dc=example,dc=com'",
        f"{REPLICA} lacks 'uid=user.1,dc=example,dc=com', has another mail, sn in "
        "'uid=user.2,dc=example,dc=com'; ",
        "7 more",
    ):
        assert part in reason
    assert "replicas differ" in render_text(document(summary))


@pytest.mark.parametrize(
    ("method", "poll_s", "words"),
    [
        ("persistent_search", None, "persistent search"),
        ("poll", 0.02, "reading every 20 ms"),
    ],
)
def test_probes_have_a_table_that_says_how_they_know(
    method: str, poll_s: float | None, words: str
) -> None:
    note = {
        "stream": "readers",
        "operation": "search",
        "server": REPLICA,
        "method": method,
        "poll_s": poll_s,
    }
    with Store.open("sqlite://") as store:
        run_id = fill(store, Scenario(**SMALL))
        record = store.run(run_id)
        plan = changed_streams(record.plan, readers={"watched": {"search": REPLICA}})
        edited = replace(record, run_id="edited", plan=plan)
        store.create_run(edited)
        add_intervals(store, "edited", stored_intervals(store, run_id))
        for agent, facts in store.agents(run_id).items():
            noted = {"probes": [note, {"method": "none of ours"}]}
            store.put_agent("edited", agent, {**facts, "notes": noted})
        summary = summarise(store, "edited")
    Draft202012Validator(result_schema()).validate(result_of(summary))
    assert result_of(summary)["probes"] == [note]
    text = render_text(document(summary))
    assert "Propagation during the run" in text
    assert words.split()[0] in text  # the rest may be in the next line
    assert ("half of it on average" in text) == (poll_s is not None)
