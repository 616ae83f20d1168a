# SPDX-License-Identifier: Apache-2.0
"""What a run prints when it ends."""

from __future__ import annotations

import re
import shlex

import pytest

from ldapslam.cli.outcome import show_outcome
from ldapslam.reports.sections.appendix import products
from ldapslam.results.facts import AgentFacts, Manifest, ServerIdentity, Target
from support.invocation import with_json
from support.store import Scenario, summary_of


def test_result_codes_are_printed_where_there_are_failures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without any they are left to the report."""
    show_outcome(summary_of(Scenario(failing=0.05)))
    printed = capsys.readouterr().out
    assert "Responses by LDAP result code" in printed
    assert "(51)" in printed
    assert re.search(r"^readers.search: [0-9.]+ entries per search$", printed, re.M)
    show_outcome(summary_of(Scenario(failing=0)))
    printed = capsys.readouterr().out
    assert "throughput" in printed
    assert "result code" not in printed


@pytest.mark.parametrize("as_json", [False, True])
def test_what_has_to_be_known_beside_the_verdict_is_printed(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    summary = summary_of(Scenario(facts={"shares_host_with_target": True}))
    with with_json(as_json):
        show_outcome(summary)
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
    known = {"servers": servers, "observations": observed}
    assert products(Manifest.parsed(known), {}) == (
        "OpenLDAP slapd, version not readable: a, d; V 2: b; product unknown: c"
    )
    version = "OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12)"
    assert products(
        Manifest(servers={"e": ServerIdentity(monitor_version=version)}), {}
    ) == ("OpenLDAP: slapd 2.5.13+dfsg-5: e")
    targets = Target(uri="a", bind_dn="cn=x"), Target(uri="d", bind_dn=None)
    agents = {"one": AgentFacts(), "two": AgentFacts(targets=targets)}
    told = products(Manifest.parsed(known), agents)
    assert told == (
        "OpenLDAP slapd, version not readable as cn=x: a; V 2: b; product unknown: c; "
        "OpenLDAP slapd, version not readable anonymously: d"
    )


def test_the_end_of_a_clean_up_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    done = {"entries": 500, "deleted": 500, "left": 0, "error": None}
    one = Scenario(agents=("load1",), facts={"clean_up": done})
    show_outcome(summary_of(one))
    assert "Clean-up: removed 500 entries, 0 left." in capsys.readouterr().out


@pytest.mark.parametrize("kept", ["cn=a[1:9]", "cn=O'Brien[1:9]", "", None])
def test_entries_that_the_job_leaves_are_a_caution(
    capsys: pytest.CaptureFixture[str], kept: str | None
) -> None:
    operation: dict[str, object] = {"name": "modify", "kind": "modify"}
    if kept is not None:
        operation |= {"keeps_entries": True, "kept_dn": kept}
    summary = summary_of(Scenario(streams={"writers": {"operations": [operation]}}))
    [(name, added)] = re.findall(
        r"(\S+): ([\d,]+) added entries", "\n".join(summary.notes)
    ) or [("", "")]
    assert bool(name) is (kept is not None)
    show_outcome(summary)
    printed = " ".join(capsys.readouterr().out.split())
    deletes = f"-e {shlex.quote(kept or '')} -n {added.replace(',', '')}` deletes"
    assert (f"{added} added entries are left" in printed) is bool(name)
    assert (deletes in printed) is bool(kept)
