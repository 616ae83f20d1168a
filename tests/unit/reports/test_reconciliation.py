# SPDX-License-Identifier: Apache-2.0
"""The servers' side of the books, and what the verdict makes of it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.reconciliation import unread
from ldapslam.reports.sections.report_document import document
from support.figures import requests_in
from support.result_schema import valid_result
from support.store import SMALL, Scenario, rule_of, run_record, to_server
from support.store import summary_of as summary_of_run

SUPPLIER, REPLICA = "ldap://ds1.example.com", "ldap://ds2.example.com"


def summary_of(
    observations: dict[str, Any],
    scenario: Scenario | None = None,
    counted: Sequence[str] = (),
    **validity: Any,
) -> Summary:
    """`counted`: servers whose directories the job monitors."""
    scenario = scenario or Scenario()
    one_each = {"readers": {"uris": [REPLICA]}, "writers": {"uris": [SUPPLIER]}}
    whole = replace(
        scenario,
        **{**SMALL, "streams": {**one_each, **scenario.streams}},
        run={"manifest": {"observations": observations}},
        plan={"validity": validity, "counted": list(counted)},
    )
    return summary_of_run(whole)


@functools.cache
def sent() -> dict[str, dict[str, int]]:
    """What the scenario's agents send, by account and kind."""
    return {
        account: dict(book) for account, book in summary_of({}).sent_requests.items()
    }


def observed(rise: dict[str, int | None], control: dict[str, int] | None = None) -> Any:
    """A server that had counted 1,000 of each kind, and counted `rise` more."""
    before = {kind: None if more is None else 1_000 for kind, more in rise.items()}
    after = {
        kind: None if more is None else 1_000 + more for kind, more in rise.items()
    }
    return {
        "kind": "slapd",
        "before": {"operations": before, "started": "20260301115500Z"},
        "after": {"operations": after, "started": "20260301115500Z"},
        "control_operations": control or {},
    }


def test_a_run_that_watched_no_server_has_nothing_to_balance() -> None:
    summary = summary_of({})
    assert summary.reconciliations == {}
    assert rule_of(summary, "books") == (True, "nothing to check")
    assert requests_in(result_of(summary))[REPLICA]["search"].keys() == {"sent"}


def test_books_balance_with_what_the_observer_asked() -> None:
    searches = sent()[REPLICA]["search"]
    control = {"search": 12, "bind": 1, "unbind": 1}
    summary = summary_of(
        {REPLICA: observed({"search": searches + 12, "bind": 1, "unbind": 1}, control)}
    )
    assert summary.verdict == "PASS"
    assert rule_of(summary, "books") == (True, "equal")
    books = requests_in(valid_result(summary))
    assert books[REPLICA]["search"] == {
        "sent": searches,
        "counted": searches,
        "control": 12,
        "replicated": 0,
        "per_sent": 1.0,
    }
    assert books[REPLICA]["bind"]["counted"] == books[REPLICA]["bind"]["sent"]
    # the other server was not watched, and that is said
    assert books[SUPPLIER]["modify"]["counted"] is None
    assert any(
        f"no monitor read what {SUPPLIER} counts" in note for note in summary.notes
    )


def test_requests_of_others_are_told_and_allowed() -> None:
    searches = sent()[REPLICA]["search"]
    observations = {REPLICA: observed({"search": searches + 7, "add": 2})}
    summary = summary_of(observations)
    assert summary.verdict == "PASS"
    assert rule_of(summary, "books") == (True, "equal, 9 of others")
    (note,) = (one for one in summary.notes if "the run did not send" in one)
    assert note.startswith(f"{REPLICA} had requests that the run did not send: 2 add")
    strict = summary_of(observations, books_other_operations=5)
    assert strict.verdict == "INVALID"
    assert rule_of(strict, "books") == (False, f"{REPLICA} has 7 search of others")


def test_requests_that_the_server_never_counted_make_the_run_invalid() -> None:
    searches = sent()[REPLICA]["search"]
    observations = {REPLICA: observed({"search": searches - 3})}
    summary = summary_of(observations)
    assert summary.verdict == "INVALID"
    assert rule_of(summary, "books") == (False, f"{REPLICA} lacks 3 search")
    assert "\N{MINUS SIGN}3" in render_text(document(summary))
    assert summary_of(observations, books_missing_operations=3).verdict == "PASS"


def test_a_request_without_an_answer_may_never_have_arrived() -> None:
    scenario = Scenario(timed_out=1, unresolved=1)
    summary = summary_of({}, scenario)
    searches = summary.sent_requests[REPLICA]["search"]
    (readers,) = (one for one in summary.operations if one.stream == "readers")
    lost = readers.totals["timed_out"] + readers.totals["unresolved"]
    assert lost > 3
    books = {REPLICA: observed({"search": searches - lost})}
    assert rule_of(summary_of(books, scenario), "books") == (True, "equal")
    books = {REPLICA: observed({"search": searches - lost - 1})}
    assert rule_of(summary_of(books, scenario), "books") == (
        False,
        f"{REPLICA} lacks 1 search",
    )


def test_a_kind_that_a_server_does_not_count_is_unknown() -> None:
    searches = sent()[REPLICA]["search"]
    summary = summary_of(
        {REPLICA: observed({"search": searches, "unbind": None}, {"unbind": 1})}
    )
    line = summary.reconciliations[REPLICA].lines["unbind"]
    assert (line.control, line.server, line.difference) == (1, None, None)
    assert summary.verdict == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"started": "20260301120007Z"}, id="another start"),
        pytest.param({"operations": {"search": 12}}, id="less than before"),
    ],
)
def test_a_server_that_was_started_anew_has_no_books(change: dict[str, Any]) -> None:
    one = observed({"search": 5_000})
    one["after"] |= change
    summary = summary_of({REPLICA: one})
    assert "was restarted" in summary.reconciliations[REPLICA].unknown
    assert summary.verdict == "FAIL"
    assert summary.reasons[0].startswith("a server was restarted")
    assert not rule_of(summary, "server_restarted")[0]


@pytest.mark.parametrize(
    ("observation", "reason"),
    [
        ({"failure": "target 'x' cannot be reached"}, "cannot be reached"),
        ({"before": {"operations": {"search": 1}, "started": None}}, "gave no counts"),
        (observed({"search": None, "bind": None}), "gave no counts"),
    ],
)
def test_what_could_not_be_read_is_unknown(observation: Any, reason: str) -> None:
    summary = summary_of({REPLICA: observation})
    assert reason in summary.reconciliations[REPLICA].unknown
    assert summary.verdict == "PASS"
    # but not where the job asks for it
    for asked in (
        summary_of({REPLICA: observation}, counted=[REPLICA]),
        summary_of({REPLICA: observation}, books_other_operations=5),
        summary_of({REPLICA: observation}, books_missing_operations=5),
    ):
        passed, observed = rule_of(asked, "books")
        assert (asked.verdict, passed) == ("INVALID", False)
        assert reason in observed


def test_a_run_whose_observer_was_lost_has_no_books() -> None:
    summary = summary_of({}, counted=[REPLICA])
    assert rule_of(summary, "books") == (
        False,
        f"no monitor read what {REPLICA} counts",
    )
    assert "it is not known what servers counted" in summary.reasons[0]
    summary = summary_of({}, books_other_operations=5)
    assert rule_of(summary, "books") == (False, "no server was watched")
    reasons = unread(run_record(Scenario()), ["it fell over"], has_limit=True)
    assert reasons == ["no server was watched", "it fell over"]


@pytest.mark.parametrize(
    ("limits", "verdict"), [({}, "PASS"), ({"books_other_operations": 5}, "INVALID")]
)
def test_a_server_without_counts_is_no_fault_unless_there_is_a_limit(
    limits: dict[str, Any], verdict: str
) -> None:
    one = {**observed({"search": None}), "kind": "other"}
    assert summary_of({REPLICA: one}, counted=[REPLICA], **limits).verdict == verdict


def test_each_server_of_a_role_is_compared_by_itself() -> None:
    uris = ["ldap://a.example.com", "ldap://b.example.com"]
    scenario = Scenario(
        # the roles have a server in common
        streams={"readers": {"uris": uris}, "writers": {"uris": uris[:1]}},
        edit=lambda record: to_server(record, "readers", uris[record.index % 2]),
    )
    a, b = (summary_of({}, scenario).sent_requests[uri] for uri in uris)
    known = observed({**a, "search": a["search"] + 9}, {"search": 4})
    summary = summary_of({uris[0]: known, uris[1]: observed(dict(b))}, scenario)
    assert rule_of(summary, "books") == (True, "equal, 5 of others")
    requests = requests_in(valid_result(summary))
    both = a["search"] + b["search"]
    assert requests["replica"]["search"] == {
        "sent": both,
        "counted": both + 5,
        "control": 4,
        "replicated": 0,
        "per_sent": pytest.approx((both + 5) / both),
    }
    # a server without load has lines of its own, and one of the role says nothing
    idle = {SUPPLIER: observed({"search": 4}, {"search": 4})}
    summary = summary_of({uris[0]: known, **idle}, scenario)
    lines = {uri: one.lines["search"] for uri, one in summary.reconciliations.items()}
    assert [lines[uri].difference for uri in (*uris, SUPPLIER)] == [5, None, 0]
    assert requests_in(result_of(summary))["replica"]["search"]["counted"] is None
    notes = [one for one in summary.notes if "no monitor read" in one]
    assert [uris[1] in one for one in notes] == [True]


def supplied(sent: int) -> Any:
    """A supplier that has sent so many changes to the replica."""
    one = observed({"search": 0})
    one["before"]["sent"] = {"localhost.localdomain:389": 100}
    one["after"]["sent"] = {"localhost.localdomain:389": 100 + sent}
    return one


@pytest.mark.parametrize(
    ("sent", "differences"),
    [
        pytest.param(12, (0, 0), id="just what the supplier says"),
        pytest.param(11, (8, 4), id="one more than it says"),
    ],
)
def test_what_a_supplier_sent_to_a_replica_is_no_other_client(
    sent: int, differences: tuple[int, int]
) -> None:
    replica = observed({"add": 8, "modify": 4})
    replica["facts"] = {"settings": {"nsslapd-localhost": "localhost.localdomain"}}
    summary = summary_of({SUPPLIER: supplied(sent), REPLICA: replica})
    lines = summary.reconciliations[REPLICA].lines
    assert (lines["add"].difference, lines["modify"].difference) == differences
    assert lines["add"].replicated == 8 - differences[0]
    is_told = any("the run did not send" in note for note in summary.notes)
    assert is_told is (sum(differences) > 0)
