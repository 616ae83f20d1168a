# SPDX-License-Identifier: Apache-2.0
"""The plan reaches the engine in the engine's own terms."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

from ldapslam.agent.engine.setup import add_streams
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, PythonPlan, agent_plan
from support.fleet import job_text

STUB = Path(__file__).parents[3] / "agent" / "_engine.pyi"


class RecordingEngine:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def add_stream(self, name: str, **settings: Any) -> int:
        self.calls.append(("add_stream", (name,), settings))
        return len(self.calls) + 10

    def add_operation(self, stream: int, name: str, **settings: Any) -> int:
        self.calls.append(("add_operation", (stream, name), settings))
        return 0

    def add_script(self, stream: int, **settings: Any) -> int:
        self.calls.append(("add_script", (stream,), settings))
        return 0


def plan_of(text: str, index: int = 0, count: int = 1) -> AgentPlan:
    return agent_plan(load_job_text(text, file="job", base=None), index, count, 7)


def calls_of(
    plan: AgentPlan, ledger_folder: Path | None = None
) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    engine = RecordingEngine()
    add_streams(engine, plan, ledger_folder=ledger_folder)
    return engine.calls


def keywords_of(method: str) -> set[str]:
    """Names of the keyword arguments that the engine's stub declares."""
    (engine,) = (
        node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "Engine"
    )
    (found,) = (
        node
        for node in engine.body
        if isinstance(node, ast.FunctionDef) and node.name == method
    )
    return {argument.arg for argument in found.args.kwonlyargs}


def test_the_plan_reaches_the_engine_whole(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    bind = {"dn": "cn=admin", "password": {"file": str(secret)}}
    plan = plan_of(job_text("ldap://ds1", clients=5, bind=bind), index=1, count=2)
    stream, operation, script = calls_of(plan)
    _, stream_name, settings = stream
    assert stream_name == ("readers",)
    assert settings["uris"] == ("ldap://ds1",)
    assert settings["bind_password"] == b"s3cret"
    # clients 1 and 3 of 0 … 4
    assert (settings["connections"], settings["first_connection"]) == (2, 1)
    assert settings["connection_stride"] == 2
    _, named, request = operation
    assert named == (11, "search")
    assert request["response_tag"] == 0x65
    assert request["values"] == [(0, 0, 99, 1, 0, b"", 0.0, 0.0)]
    assert request["program"]
    assert script == ("add_script", (11,), {"weight": 1, "steps": ((0, 0),)})


def test_every_argument_is_one_that_the_engine_has() -> None:
    for method, _, settings in calls_of(plan_of(job_text("ldap://ds1"))):
        assert set(settings) == keywords_of(method)


def test_ledgers_are_kept_only_where_entries_are_added(tmp_path: Path) -> None:
    plan = plan_of(job_text("ldap://ds1"))
    (stream,) = plan.streams
    adding = dataclasses.replace(
        plan, streams=(stream, dataclasses.replace(stream, ledgers=1))
    )
    folders = [
        settings["ledger_folder"]
        for method, _, settings in calls_of(adding, tmp_path)
        if method == "add_stream"
    ]
    assert folders == [None, str(tmp_path)]


def test_stream_of_a_python_class_is_not_the_engines() -> None:
    plan = plan_of(job_text("ldap://ds1"))
    (stream,) = plan.streams
    by_hand = dataclasses.replace(stream, python=PythonPlan("a.b:C"))
    assert calls_of(dataclasses.replace(plan, streams=(by_hand,))) == []
