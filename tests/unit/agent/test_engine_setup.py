# SPDX-License-Identifier: Apache-2.0
"""The plan reaches the engine as it is, with its secrets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent import _engine
from ldapslam.agent._engine import Engine
from ldapslam.agent.engine.setup import add_streams
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import PythonStream
from ldapslam.jobs.plan import AgentPlan, StreamPlan, agent_plan
from ldapslam.proto import fields
from support.fleet import job_text

#: Of a stream's plan, what is for others than the engine.
NOT_THE_ENGINES = {"name", "target", "clean_up", "python", "watched", "replay"}
#: Of an operation's; of a connection's, whose addresses the stream has for each URI.
NOT_THE_ENGINES |= {"operations[].name", "operations[].kind", "operations[].ledger_of"}
NOT_THE_ENGINES |= {"operations[].template.constant_bytes", "operations[].is_rehearsal"}
NOT_THE_ENGINES |= {"operations[].template.base64s", "connection.addresses"}


class RecordingEngine:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.streams: list[StreamPlan] = []

    def add_stream(self, stream: StreamPlan, /) -> int:
        self.streams.append(stream)
        return len(self.streams) - 1


class Watched:
    """A dataclass that notes which of its fields are asked for."""

    def __init__(self, value: Any, names: set[str], path: str = "") -> None:
        self._value, self._names, self._path = value, names, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}{name}"
        self._names.add(path)
        return self._watched(getattr(self._value, name), path)

    def _watched(self, value: Any, path: str) -> Any:
        if dataclasses.is_dataclass(value):
            return Watched(value, self._names, f"{path}.")
        if isinstance(value, (tuple, list)) and any(
            map(dataclasses.is_dataclass, value)
        ):
            return [self._watched(item, f"{path}[]") for item in value]
        return value


def fields_of(value: Any, path: str = "") -> set[str]:
    """Names of its fields, and of those of what they have."""
    names = set()
    for field in dataclasses.fields(value):
        name, content = f"{path}{field.name}", getattr(value, field.name)
        names.add(name)
        if dataclasses.is_dataclass(content):
            names |= fields_of(content, f"{name}.")
        elif isinstance(content, tuple):
            for item in filter(dataclasses.is_dataclass, content):
                names |= fields_of(item, f"{name}[].")
    return names


def plan_of(text: str, index: int = 0, count: int = 1) -> AgentPlan:
    return agent_plan(load_job_text(text, file="job", base=None), index, count, 7)


def added(plan: AgentPlan, ledger_folder: Path | None = None) -> list[StreamPlan]:
    engine: Any = RecordingEngine()
    add_streams(engine, plan, ledger_folder=ledger_folder)
    streams: list[StreamPlan] = engine.streams
    return streams


def test_streams_have_their_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    bind = {"dn": "cn=admin", "password": {"file": str(secret)}}
    plan = plan_of(job_text("ldap://ds1", clients=5, bind=bind), index=1, count=2)
    (stream,) = added(plan)
    assert stream.connection.bind.password == b"s3cret"
    assert "s3cret" not in repr(stream)
    unresolved = dataclasses.replace(stream, connection=plan.streams[0].connection)
    assert (unresolved,) == plan.streams


def test_the_engine_reads_every_field_of_a_plan_that_is_for_it() -> None:
    plan = plan_of(job_text("ldap://ds1"))
    (stream,) = added(plan)
    names: set[str] = set()
    run: Any = Watched(plan, names)
    engine = Engine(run, workers=1)
    assert names < fields_of(plan)
    names.clear()
    watched: Any = Watched(stream, names)
    assert engine.add_stream(watched) == 0
    # a property: the addresses of the connection, for each URI
    assert names - {"addresses"} == fields_of(stream) - NOT_THE_ENGINES


def test_an_error_names_the_field() -> None:
    (stream,) = added(plan_of(job_text("ldap://ds1")))
    engine = Engine(plan_of(job_text("ldap://ds1")), workers=1)
    wrong: Any = dataclasses.replace(stream, max_backlog=-1)
    with pytest.raises(ValueError, match=r"^max_backlog: "):
        engine.add_stream(wrong)
    wrong = dataclasses.replace(stream, in_flight=1 << 32)
    with pytest.raises(ValueError, match=r"^in_flight: 4294967296 is too large"):
        engine.add_stream(wrong)
    uris: Any = ("ldap://ds1", 5)
    wrong = dataclasses.replace(stream, uris=uris)
    with pytest.raises(TypeError, match=r"^uris\[1\]: expected a text, got .*int"):
        engine.add_stream(wrong)
    password: Any = "s3cret"
    bind = dataclasses.replace(stream.connection.bind, password=password)
    connection = dataclasses.replace(stream.connection, bind=bind)
    wrong = dataclasses.replace(stream, connection=connection)
    with pytest.raises(TypeError, match=r"^connection\.bind\.password: ") as error:
        engine.add_stream(wrong)
    assert "s3cret" not in str(error.value)
    with pytest.raises(AttributeError, match="seed"):
        Engine(wrong, workers=1)


def test_ledgers_are_kept_only_where_entries_are_added(tmp_path: Path) -> None:
    plan = plan_of(job_text("ldap://ds1"))
    (stream,) = plan.streams
    adding = dataclasses.replace(
        plan, streams=(stream, dataclasses.replace(stream, ledgers=1))
    )
    folders = [stream.ledger_folder for stream in added(adding, tmp_path)]
    assert folders == [None, str(tmp_path)]


def test_stream_of_a_python_class_is_not_the_engines() -> None:
    plan = plan_of(job_text("ldap://ds1"))
    (stream,) = plan.streams
    python = PythonStream.model_validate({"class": "a.b:C", "operations": ["read"]})
    by_hand = dataclasses.replace(stream, python=python)
    assert added(dataclasses.replace(plan, streams=(by_hand,))) == []


# The engine's names, and their order, are those of proto/fields.py.


@pytest.mark.parametrize(
    "names",
    ["OPERATION_COUNTERS", "STREAM_COUNTERS", "SET_UP_TIMES", "WORKER_COUNTERS"],
)
def test_counters_are_columns(names: str) -> None:
    assert getattr(_engine, names) == getattr(fields, names)


@pytest.mark.parametrize("names", ["METRICS", "OUTCOMES"])
def test_metrics_and_outcomes_are_columns(names: str) -> None:
    found = tuple(name.lower() for name in getattr(_engine, names))
    assert found == getattr(fields, names)
