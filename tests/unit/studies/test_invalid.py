# SPDX-License-Identifier: Apache-2.0
"""Studies whose points are INVALID one after the other."""

from __future__ import annotations

from typing import Any

from ldapslam.jobs.fields.validity import Validity
from ldapslam.reports.rules.rules import Cause
from ldapslam.studies.invalid import FIELDS, Row


def failed(name: str, cause: Cause = Cause.EVIDENCE) -> dict[str, Any]:
    return {"rules": [{"name": name, "passed": False, "cause": cause}]}


def test_the_third_point_in_a_row_is_told_once_with_what_decides() -> None:
    row = Row()
    said = [row.add("INVALID", failed("loop_share")) for _ in range(5)]
    assert [bool(one) for one in said] == [False, False, True, False, False]
    assert "validity.loop_share decides" in said[2]
    assert "Ctrl-C" in said[2]


def test_another_reason_or_a_valid_point_begins_a_row_of_its_own() -> None:
    row = Row()
    for name in ("send_lag", "loop_share", "send_lag"):
        assert not row.add("INVALID", failed(name))
    for verdict in ("INVALID", "PASS", "INVALID", "INVALID"):
        assert not row.add(verdict, failed("send_lag"))
    assert row.add("INVALID", failed("send_lag"))


def test_what_the_directory_did_wrong_beside_it_does_not_decide() -> None:
    both = failed("server_restarted", Cause.TARGET)["rules"]
    result = {"rules": [*both, *failed("clock_step")["rules"]]}
    row = Row()
    said = [row.add("INVALID", result) for _ in range(3)]
    assert "the rule clock_step decides" in said[2]


def test_a_threshold_that_stays_open_is_named() -> None:
    result = {"thresholds": [{"expression": "p99 < 1s", "outcome": "uncertain"}]}
    row = Row()
    said = [row.add("INVALID", result) for _ in range(3)]
    assert "the threshold p99 < 1s" in said[2]


def test_the_fields_are_those_of_jobs() -> None:
    keys = {one.removesuffix("_ns") for one in Validity.model_fields}
    assert {one for of in FIELDS.values() for one in of} == keys
