# SPDX-License-Identifier: Apache-2.0
"""What the verdict and the report make of a check of replication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.reconciliation import sent_to
from ldapslam.reports.sections.report_document import document
from ldapslam.results.facts import Observation, Reading
from ldapslam.results.store import Store
from support.figures import value_in
from support.result_schema import valid_result
from support.store import RUN_ID, SMALL, Scenario
from support.store import summary_of as summary_of_run

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
        "trees": [{**tree, **changes.pop("tree", {})}],
        "content": {**content, **changes.pop("content", {})},
        **changes,
    }


def summary_of(
    manifest: dict[str, Any],
    *,
    is_asked: bool = True,
    events: Sequence[tuple[str, str]] = (),
) -> Summary:
    def add(store: Store) -> None:
        for kind, text in events:
            store.add_event(RUN_ID, kind, text, "2026-03-01T12:00:09Z")

    verify = {"verify": {"replication": {"within": "60s"}}} if is_asked else {}
    scenario = Scenario(run={"manifest": manifest}, plan=verify, **SMALL)
    summary = summary_of_run(scenario, add=add)
    valid_result(summary)
    return summary


def test_a_run_that_did_not_ask_has_nothing_to_say() -> None:
    summary = summary_of({}, is_asked=False)
    assert summary.verdict == "PASS"
    assert result_of(summary)["replication"] is None
    assert "Convergence" not in render_text(document(summary))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "replicas hold the same"),
        ({"skipped": ["cn=accesslog"]}, "not all servers replicate it: cn=accesslog"),
        (
            {"tree": {"stale": ["7", "9"]}},
            "left aside are the changes of 7, 9, which only some servers",
        ),
    ],
)
def test_servers_that_hold_the_same_pass(changes: dict[str, Any], words: str) -> None:
    summary = summary_of({"replication": found(**changes)})
    assert (summary.verdict, summary.reasons) == ("PASS", ())
    assert value_in(result_of(summary), "replication.after") == 0.25e6
    assert words in " ".join(render_text(document(summary)).split())


@pytest.mark.parametrize(
    ("manifest", "events", "reason"),
    [
        ({}, [], "no monitor checked"),
        ({"replication": {"failure": "it cannot be reached"}}, [], "reached"),
        (
            {},
            [
                ("agent_lost", "agent 'load1': gone"),
                ("observer_failed", "the observer of load1: its process ended"),
                ("observer_overdue", "the observers of load2 took too long"),
            ],
            "no monitor checked: the observer of load1: its process ended: "
            "the observers of load2 took too long",
        ),
    ],
)
def test_what_could_not_be_checked_is_invalid(
    manifest: dict[str, Any], events: list[tuple[str, str]], reason: str
) -> None:
    summary = summary_of(manifest, events=events)
    assert summary.verdict == "INVALID"
    assert summary.reasons[0].endswith(reason)
    assert "could not be checked" in render_text(document(summary))


def test_servers_that_did_not_converge_fail_with_who_is_behind() -> None:
    tree = {
        "converged": False,
        "after_s": None,
        "states": {SUPPLIER: {"001": CSN}, REPLICA: {}},
        "behind": {REPLICA: ["001"]},
    }
    summary = summary_of({"replication": found(tree=tree, converged=False)})
    assert summary.verdict == "FAIL"
    assert summary.reasons == (
        f"replication of {SUFFIX} did not converge within 60 s: {REPLICA} behind",
    )
    assert "behind on changes of 001" in render_text(document(summary))


def test_entries_that_differ_fail_and_are_named_with_their_attributes() -> None:
    differences = [
        {
            "server": REPLICA,
            "dn": f"uid={uid},dc=x",
            "difference": how,
            "attributes": of,
        }
        for uid, how, of in (("1", "missing", []), ("2", "different", ["mail", "sn"]))
    ]
    content = {"difference_count": 9, "differences": differences}
    summary = summary_of({"replication": found(content=content)})
    assert summary.verdict == "FAIL"
    (reason,) = summary.reasons
    for part in (
        f"9 entries differ from {SUPPLIER} after the load",
        f"{REPLICA} lacks 'uid=1,dc=x', has another mail, sn in 'uid=2,dc=x'; ",
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
    scenario = Scenario(
        **SMALL,
        streams={"readers": {"watched": {"search": REPLICA}}},
        facts={"notes": {"probes": [note, {"method": "none of ours"}]}},
    )
    summary = summary_of_run(scenario)
    assert valid_result(summary)["probes"] == [note]
    text = render_text(document(summary))
    assert "Propagation during the run" in text
    assert words.split()[0] in text  # the rest may be in the next line
    assert ("half of it on average" in text) == (poll_s is not None)


# Which server an agreement of a 389-DS supplier means.


SUPPLIED = "ldap://ds1.example.com"


def sent(place: str, servers: dict[str, dict[str, str]]) -> dict[str, int]:
    """Of 5 changes that the supplier has sent to `place`; URI -> settings."""
    observations = {
        uri: Observation.parsed({"facts": {"settings": settings}})
        for uri, settings in servers.items()
    }
    observations[SUPPLIED] = Observation(
        before=Reading(sent={place: 100}), after=Reading(sent={place: 105})
    )
    return dict(sent_to(observations))


OWN = {"nsslapd-localhost": "box", "nsslapd-port": "389", "nsslapd-securePort": "636"}


@pytest.mark.parametrize(
    ("place", "uri", "settings"),
    [
        ("ds2.example.com:389", "ldap://ds2.example.com", {}),
        ("ds2.example.com:636", "ldaps://ds2.example.com", {}),
        ("box:389", "ldaps://ds2.example.com", OWN),
        ("box:3389", "ldap://ds2.example.com:3389", OWN),
        ("box:636", "ldap://ds2.example.com", {**OWN, "nsslapd-security": "on"}),
        (
            "ds2.example.com:636",
            "ldap://ds2.example.com",
            {**OWN, "nsslapd-security": "on"},
        ),
        ("localhost:3389", "ldap://127.0.0.1:3389", {}),
    ],
)
def test_an_agreement_means_a_server_by_its_address_or_its_own_name(
    place: str, uri: str, settings: dict[str, str]
) -> None:
    assert sent(place, {uri: settings}) == {uri: 5}


@pytest.mark.parametrize(
    ("place", "servers"),
    [
        pytest.param(
            "localhost:389", {"ldap://localhost:3389": OWN}, id="a container's own port"
        ),
        pytest.param(
            "box:636", {"ldap://ds2.example.com": OWN}, id="a port that is closed"
        ),
        pytest.param(
            "box:389",
            {"ldap://localhost:3389": OWN, "ldap://localhost:3390": OWN},
            id="two of one name",
        ),
    ],
)
def test_a_place_that_may_be_another_server_is_nobodys(
    place: str, servers: dict[str, dict[str, str]]
) -> None:
    assert sent(place, servers) == {}
