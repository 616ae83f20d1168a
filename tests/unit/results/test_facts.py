# SPDX-License-Identifier: Apache-2.0
"""The facts of runs: equal after the store, and of no other type than theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from ldapslam.base.errors import StoreRefused
from ldapslam.results.facts import (
    AgentFacts,
    Facts,
    Manifest,
    MonitorFacts,
    Observed,
    ReportedFacts,
    Said,
)
from ldapslam.results.monitor_rows import describe_monitors, monitor_descriptions
from ldapslam.results.records import MonitorDescription
from ldapslam.results.store import Store
from support.store import RUN_ID, Scenario, run_record

KINDS = (Manifest, AgentFacts, ReportedFacts, MonitorFacts, Observed)
#: Of another type than the values of a type here.
_PLAIN: dict[Any, tuple[Any, list[Any]]] = {
    str: ("x", [1, True, [], {}]),
    bool: (True, [1, "x", [], {}]),
    int: (1, [1.5, True, "1", [], {}]),
    float: (0.5, ["1", True, [], {}]),
}


def _values(kind: Any) -> tuple[Any, list[Any]]:
    """A JSON value of a type, with all that the type can have; and values that differ
    from it in one place, where they are of another type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == Said:
        return {"any": ["thing", 1, None, {}]}, ["mars", [], 1]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        known = {name: _values(field.annotation) for name, field in fields}
        whole = {name: value for name, (value, _) in known.items()}
        wrong = [
            {**whole, n: one} for n, (_, wrongs) in known.items() for one in wrongs
        ]
        is_open = kind.model_config["extra"] == "allow"
        return whole, [*wrong, [], "x", *([] if is_open else [{**whole, "more": 1}])]
    if get_origin(kind) is Annotated:  # no number is negative
        value, wrongs = _values(get_args(kind)[0])
        return value, [*wrongs, -1]
    if get_origin(kind) is Literal:
        return get_args(kind)[0], ["x", 1]
    *_, inner = (one for one in get_args(kind) if one not in (type(None), Ellipsis))
    value, wrongs = _values(inner)
    if get_origin(kind) is tuple:
        return [value, value], [*([value, one] for one in wrongs), {}, "x"]
    if type(None) in get_args(kind):
        return value, wrongs
    return {"a": value}, [*({"a": one} for one in wrongs), [], "x"]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as store:
        store.create_run(run_record(Scenario(run={"manifest": {}})))
        yield store


def test_every_fact_is_equal_after_the_store(store: Store) -> None:
    manifest, agent, monitor = (
        _values(kind)[0] for kind in (Manifest, AgentFacts, MonitorFacts)
    )
    monitor |= {"pid": 411, "more": [{"deep": None}]}
    described = MonitorDescription("host h", (), MonitorFacts.parsed(monitor))
    store.set_manifest(RUN_ID, Manifest.parsed(manifest))
    store.put_agent(RUN_ID, "load1", AgentFacts.parsed(agent))
    describe_monitors(store, RUN_ID, "load1", [described])
    assert store.run(RUN_ID).manifest.document() == manifest
    assert store.agents(RUN_ID)["load1"].document() == agent
    assert monitor_descriptions(store, RUN_ID) == [("load1", described)]
    assert described.facts.document() == monitor


@pytest.mark.parametrize("kind", KINDS)
def test_no_fact_is_of_another_type(kind: type[Facts]) -> None:
    whole, wrongs = _values(kind)
    assert kind.parsed(whole).document() == whole
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            print(kind.parsed(wrong))


def test_a_stored_document_of_another_ldapslam_is_refused_in_one_sentence() -> None:
    with pytest.raises(StoreRefused, match=r"not those of this ldapslam: workers: "):
        AgentFacts.stored({"workers": "two"})
