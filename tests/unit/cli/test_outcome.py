# SPDX-License-Identifier: Apache-2.0
"""What a run prints when it ends."""

from __future__ import annotations

import pytest

from ldapslam.cli.outcome import show_outcome
from ldapslam.reports.model import Summary
from ldapslam.reports.sections.appendix import products
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from support.store import Scenario, fill


def summary_of(scenario: Scenario) -> Summary:
    with Store.open("sqlite://") as store:
        return summarise(store, fill(store, scenario))


def test_failures_are_printed_with_their_result_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_outcome(summary_of(Scenario(failing=0.05)), as_json=False)
    printed = capsys.readouterr().out
    assert "Responses by LDAP result code" in printed
    assert "(51)" in printed


def test_without_failures_the_result_codes_are_left_to_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_outcome(summary_of(Scenario(failing=0)), as_json=False)
    printed = capsys.readouterr().out
    assert "throughput" in printed
    assert "result code" not in printed


@pytest.mark.parametrize("as_json", [False, True])
def test_what_has_to_be_known_beside_the_verdict_is_printed(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    summary = summary_of(Scenario(facts={"shares_host_with_target": True}))
    show_outcome(summary, as_json=as_json)
    printed = capsys.readouterr()
    text = printed.err if as_json else printed.out
    assert "share a host: the results are those of both together" in " ".join(
        text.split()
    )


def test_the_note_on_priority_is_for_open_loops() -> None:
    def has_note(model: str) -> bool:
        scenario = Scenario(
            facts={"realtime": False}, streams={"writers": {"model": model}}
        )
        return any("real-time" in one for one in summary_of(scenario).notes)

    assert [has_note("open"), has_note("closed")] == [True, False]


def test_a_product_whose_version_is_hidden_is_named() -> None:
    servers = {
        "a": {"vendor_name": "OpenLDAP slapd", "naming_contexts": ["dc=x"]},
        "b": {"vendor_name": "V", "vendor_version": "2"},
        "c": {"naming_contexts": ["dc=x"]},
    }
    observed = {
        "d": {"facts": {"kind": "slapd", "vendor": "OpenLDAP", "version": None}}
    }
    assert products({"servers": servers, "observations": observed}) == (
        "OpenLDAP slapd, version not readable: a, d; V 2: b; product unknown: c"
    )
    version = "OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12)"
    assert products({"servers": {"e": {"monitor_version": version}}}) == (
        "OpenLDAP: slapd 2.5.13+dfsg-5: e"
    )
    targets = [{"uri": "a", "bind_dn": "cn=x"}, {"uri": "d", "bind_dn": None}]
    agents = {"one": {}, "two": {"targets": targets}}
    told = products({"servers": servers, "observations": observed, "agents": agents})
    assert told == (
        "OpenLDAP slapd, version not readable as cn=x: a; V 2: b; product unknown: c; "
        "OpenLDAP slapd, version not readable anonymously: d"
    )
