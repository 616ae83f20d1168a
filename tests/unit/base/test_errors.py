# SPDX-License-Identifier: Apache-2.0
"""Errors survive borders, and lead to documented exit codes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import pytest

from ldapslam.base import errors
from ldapslam.base.errors import (
    EXIT_CODE_MEANING,
    AgentLost,
    BindRejected,
    EngineError,
    ExitCode,
    JobError,
    JobErrors,
    LdapSlamError,
    NotEnoughAgents,
    RunAborted,
)
from support.sample_errors import FAULT, SAMPLES


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_error_survives_pickling_and_json(error: LdapSlamError) -> None:
    document = json.loads(json.dumps(error.to_dict()))
    for again in (
        pickle.loads(pickle.dumps(error)),
        LdapSlamError.from_dict(document),
    ):
        assert type(again) is type(error)
        assert (str(again), again.hint) == (str(error), error.hint)
        assert again.to_dict() == error.to_dict()


def described(name: str, values: Mapping[str, object]) -> LdapSlamError:
    return LdapSlamError.from_dict({"class": name, "message": "m", "values": values})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("FromTheFuture", {"hint": "update"}),
        ("JobErrors", {"faults": 7}),
        ("JobErrors", {"faults": [{"class": "X", "message": "m", "values": {}}]}),
        ("JobErrors", {}),
        ("JobError", {"reason": "r", "file": "f", "line": "3", "path": ""}),
        ("AgentLost", {"agent": "a", "silent_s": True}),
        ("NotEnoughAgents", {"wanted": "w", "available": ["a", 5]}),
    ],
)
def test_an_unknown_error_or_one_with_values_of_no_use_becomes_the_root(
    name: str, values: dict[str, object]
) -> None:
    error = described(name, values)
    assert type(error) is LdapSlamError
    assert (str(error), error.hint) == ("m", values.get("hint"))


def test_an_error_that_an_earlier_version_described_keeps_its_class() -> None:
    values = {"wanted": "2 agents", "available": ["a"], "hint": "start more"}
    error = described("NotEnoughAgents", values)
    assert isinstance(error, NotEnoughAgents)
    assert error.exit_code is ExitCode.FLEET


def test_a_described_error_has_the_attributes_of_its_class_only() -> None:
    values = {"agent": "a", "silent_s": 5, "exit_code": 0, "args": [], "hint": "h"}
    error = described("AgentLost", values)
    assert isinstance(error, AgentLost)
    assert vars(error) == {"agent": "a", "silent_s": 5, "hint": "h"}
    assert error.exit_code is ExitCode.FLEET


def test_every_class_has_a_sample() -> None:
    classes = {
        value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, LdapSlamError)
        if not name.startswith("_")
    }
    assert classes == {type(error) for error in SAMPLES}


def test_of_a_large_fleet_the_first_agents_are_named() -> None:
    names = [f"a{number}" for number in range(10)]
    error = NotEnoughAgents("11 agents", names, names[:9])
    assert str(error).endswith("available: a0, a1, a2, a3, a4, a5, a6, a7, and 2 more")
    assert "a7; and 1 more; start more" in str(error.hint)
    assert error.available == names


def test_position_of_a_fault_leads_its_message() -> None:
    assert str(FAULT) == "a.yaml:3:5: run: expected x"
    assert str(JobError("cannot be read", file="b.yaml")) == "b.yaml: cannot be read"


def test_every_exit_code_has_a_meaning() -> None:
    assert set(EXIT_CODE_MEANING) == set(ExitCode)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (JobErrors([FAULT]), 2),
        (RunAborted("cancelled"), 3),
        (AgentLost("a1", 5), 5),
        (BindRejected("ldap://a", None, 49, ""), 6),
        (EngineError("x"), 70),
    ],
    ids=lambda value: str(getattr(value, "__class__", value)),
)
def test_error_leads_to_the_exit_code_of_its_kind(
    error: LdapSlamError, exit_code: int
) -> None:
    assert error.exit_code == exit_code
