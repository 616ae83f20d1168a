# SPDX-License-Identifier: Apache-2.0
"""An agent's plan, handed to the engine: streams, their operations and their sessions.

The plan has the engine's own terms (jobs/plan.py), so this is a walk through it; only
the secrets, which plans have by reference, are resolved here. Streams that a Python
class drives are not the engine's and are left out.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Protocol

from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.requests.template import Template
from ldapslam.jobs.scripts import OperationPlan

#: Fields of a StreamPlan that are not arguments of add_stream as they are.
_NOT_SETTINGS = {
    "name",
    "target",
    "bind_password",
    "clean_up",
    "operations",
    "scripts",
    "python",
    "replay",
}


class Engine(Protocol):
    """What this module uses of `_engine.Engine`."""

    def add_stream(self, name: str, **settings: Any) -> int: ...
    def add_operation(self, stream: int, name: str, **settings: Any) -> int: ...
    def add_script(
        self, stream: int, *, weight: int, steps: tuple[tuple[int, int], ...]
    ) -> int: ...


def native_streams(plan: AgentPlan) -> tuple[StreamPlan, ...]:
    """The plan's streams that the engine drives, in the order of its numbers."""
    return tuple(stream for stream in plan.streams if stream.engine == "native")


def add_streams(
    engine: Engine, plan: AgentPlan, *, ledger_folder: Path | None = None
) -> None:
    """Hand the plan's native streams to the engine. What they add to a directory is
    noted in files of `ledger_folder`; without one, in none."""
    for stream in native_streams(plan):
        index = engine.add_stream(
            stream.name, **_stream_settings(stream, ledger_folder)
        )
        for operation in stream.operations:
            engine.add_operation(
                index, operation.name, **_operation_settings(operation)
            )
        for script in stream.scripts:
            engine.add_script(index, weight=script.weight, steps=script.steps)


def _stream_settings(stream: StreamPlan, ledger_folder: Path | None) -> dict[str, Any]:
    password = stream.bind_password.resolve() if stream.bind_password else None
    settings = {
        field.name: getattr(stream, field.name)
        for field in dataclasses.fields(stream)
        if field.name not in _NOT_SETTINGS
    }
    settings["profile"] = [tuple(segment) for segment in stream.profile]
    folder = str(ledger_folder) if ledger_folder and stream.ledgers else None
    return {**settings, "bind_password": password, "ledger_folder": folder}


def _operation_settings(operation: OperationPlan) -> dict[str, Any]:
    settings = {
        field.name: getattr(operation, field.name)
        for field in dataclasses.fields(operation)
        if field.name not in ("name", "kind", "template")
    }
    program, values = _template(operation.template)
    lets = [(variable, *_template(text)) for variable, text in operation.lets]
    return {**settings, "program": program, "values": values, "lets": lets}


def _template(template: Template) -> tuple[bytes, list[tuple[Any, ...]]]:
    """Program and values as the engine takes them."""
    return template.program, [
        (v.kind, v.lo, v.hi, v.step, v.width, v.data, v.a, v.b) for v in template.values
    ]
