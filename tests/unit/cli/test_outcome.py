# SPDX-License-Identifier: Apache-2.0
"""What a run prints when it ends."""

from __future__ import annotations

import pytest

from ldapslam.cli.outcome import show_outcome
from ldapslam.reports.model import Summary
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
