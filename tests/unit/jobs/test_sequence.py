# SPDX-License-Identifier: Apache-2.0
"""Operations and sequences become sessions of the engine."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.plan import StreamPlan, agent_plan
from ldapslam.jobs.requests.template import UNIQUE, VARIABLE
from ldapslam.jobs.scripts import ScriptPlan
from support.fleet import job_text

BASE = {"base": "dc=com"}


def job_of(*streams: dict[str, Any]) -> Job:
    common = {"target": "replica", "load": {"clients": 4}}
    text = job_text(
        streams=[
            {"name": f"stream{number}", **common, **stream}
            for number, stream in enumerate(streams)
        ]
    )
    return load_job_text(text, file="job", base=None)


def stream_of(*operations: Any, **stream: Any) -> Stream:
    return job_of({"operations": list(operations), **stream}).streams[0]


def plan_of(*operations: Any, **stream: Any) -> StreamPlan:
    job = job_of({"operations": list(operations), **stream})
    return agent_plan(job, 0, 1, seed=1).streams[0]


def faults_of(*operations: Any, **stream: Any) -> list[str]:
    with pytest.raises(JobErrors) as caught:
        stream_of(*operations, **stream)
    return [f"{fault.path}: {fault.reason}" for fault in caught.value.faults]


def used_variables(plan: StreamPlan, name: str) -> list[int]:
    """Variables that the request of an operation has in it, in order."""
    (operation,) = (one for one in plan.operations if one.name == name)
    return [v.lo for v in operation.template.values if v.kind == VARIABLE]


def test_plain_operation_is_a_session_of_one_request() -> None:
    plan = plan_of({"search": BASE, "weight": 3}, {"name": "all", "search": BASE})
    assert [operation.name for operation in plan.operations] == ["search", "all"]
    assert plan.scripts == (ScriptPlan(3, ((0, 0),)), ScriptPlan(1, ((1, 0),)))
    assert plan.variables == 0


def test_sequence_is_a_session_of_its_steps_with_their_pauses() -> None:
    plan = plan_of(
        {
            "weight": 2,
            "sequence": [
                {"bind": {"anonymous": True}},
                {"search": BASE, "repeat": 3},
                {"think": "10ms"},
                {"think": "5ms"},
                {"name": "last", "search": BASE},
                {"unbind": {}},
            ],
        }
    )
    names = ["bind", "search", "last", "unbind"]
    assert [operation.name for operation in plan.operations] == names
    assert plan.scripts == (
        ScriptPlan(2, ((0, 0), (1, 0), (1, 0), (1, 0), (2, 15_000_000), (3, 0))),
    )
    assert [operation.action for operation in plan.operations][-1] == "unbind"


def test_name_of_a_sequence_begins_those_of_its_steps() -> None:
    stream = stream_of(
        {"name": "a", "sequence": [{"search": BASE}]},
        {"name": "b", "sequence": [{"search": BASE}, {"name": "x", "search": BASE}]},
    )
    assert stream.request_names == [
        ("a-search", "search"),
        ("b-search", "search"),
        ("x", "search"),
    ]


def test_later_steps_use_what_earlier_ones_made() -> None:
    plan = plan_of(
        {
            "sequence": [
                {
                    "let": {"user": "user.[0-9]", "mail": "[user]@example.com"},
                    "search": {**BASE, "filter": "(uid=[user])"},
                    "capture": {"who": "dn", "sn": "sn"},
                },
                {"compare": {"dn": "[who]", "attribute": "mail", "value": "[mail]"}},
            ]
        }
    )
    search, compare = plan.operations
    assert [variable for variable, _ in search.lets] == [0, 1]
    assert search.captures == ((2, b""), (3, b"sn"))
    assert used_variables(plan, "search") == [0]
    assert used_variables(plan, "compare") == [2, 1]
    assert plan.variables == 4
    assert not compare.captures


def test_each_session_has_variables_of_its_own() -> None:
    step = {"let": {"a": "[uuid]"}, "search": {**BASE, "filter": "(cn=[a])"}}
    plan = plan_of({"sequence": [step]}, {**step, "name": "other"})
    assert used_variables(plan, "search") == used_variables(plan, "other") == [0]
    assert plan.variables == 1


def test_expected_codes_are_apart_from_successes() -> None:
    plan = plan_of(
        {"search": BASE, "expect": ["success", "noSuchObject"]},
        {"name": "none", "search": BASE, "expect": [32]},
        {"compare": {"dn": "cn=a", "attribute": "cn", "value": "a"}},
    )
    codes = [(one.success_codes, one.expected_codes) for one in plan.operations]
    assert codes == [((0,), (32,)), ((), (32,)), ((5, 6), ())]


def test_abandoned_search_is_a_session_with_its_abandon() -> None:
    plan = plan_of(
        {"search": BASE},
        {"name": "give-up", "abandon": {"of": "search", "after": "2ms"}},
    )
    names = ["search", "give-up-search", "give-up"]
    assert [operation.name for operation in plan.operations] == names
    assert [operation.awaits for operation in plan.operations] == [True, False, True]
    assert plan.scripts[1].steps == ((1, 0), (2, 2_000_000))
    assert plan.operations[2].action == "abandon"


ADD = {"add": {"dn": "cn=[unique],dc=com", "entry": {"objectClass": "device"}}}


def test_entries_are_noted_in_a_ledger_and_taken_from_it() -> None:
    plan = plan_of(
        ADD,
        {**ADD, "name": "other"},
        {"delete": {"of": "other", "order": "lifo"}},
        {"modify": {"of": "add", "replace": {"description": "x"}}},
    )
    assert plan.ledgers == 2
    assert plan.clean_up == (True, True)
    add, other, delete, modify = plan.operations
    assert (add.ledger, other.ledger, delete.ledger, modify.ledger) == (0, 1, 1, 0)
    assert min(add.ledger_put, other.ledger_put) >= 0
    assert (add.ledger_take, delete.ledger_put) == (-1, -1)
    assert delete.ledger_take >= 0
    assert delete.ledger_order == "lifo"
    assert modify.ledger_take >= 0


def test_entries_that_stay_and_that_nobody_takes_are_not_noted() -> None:
    body = {**ADD["add"], "clean_up": False}
    plan = plan_of({"add": body})
    assert (plan.ledgers, plan.operations[0].ledger_put) == (0, -1)
    taken = plan_of({"add": body}, {"delete": {"of": "add"}})
    assert (taken.ledgers, taken.clean_up) == (1, (False,))


def test_unique_values_are_unique_over_all_streams() -> None:
    job = job_of({"operations": [ADD]}, {"operations": [ADD]})
    sources = [
        value
        for stream in agent_plan(job, 0, 1, seed=1).streams
        for operation in stream.operations
        for text in (*(text for _, text in operation.lets), operation.template)
        for value in text.values
        if value.kind == UNIQUE
    ]
    assert [(source.lo, source.step) for source in sources] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("operations", "stream"),
    [
        ([{"sequence": [{"search": BASE}]}], {}),
        ([{"bind": {"anonymous": True}}], {}),
        ([{"search": {**BASE, "page_size": 10}}], {}),
        ([{"search": BASE}], {"connection": {"per_operation": True}}),
    ],
    ids=["sequence", "bind", "pages", "per-operation"],
)
def test_session_that_needs_its_connection_has_it_for_itself(
    operations: list[Any], stream: dict[str, Any]
) -> None:
    opened = {"rate": "10/s"}
    assert plan_of(*operations, load=opened, **stream).in_flight == 1
    (fault,) = faults_of(*operations, load={**opened, "in_flight": 4}, **stream)
    assert fault.startswith("streams[0].load.in_flight: expected 1, as ")


def test_other_sessions_share_connections() -> None:
    assert plan_of({"search": BASE}, load={"rate": "10/s"}).in_flight == 16
    assert plan_of({"search": BASE}).in_flight == 1


# Identities.

USER = {"bind": {"dn": "uid=user.[0-9],dc=com", "password": "x"}}
LOADER = {"bind": {"dn": "cn=Loader,dc=com", "password": "x"}}
ANONYMOUS = {"bind": {"anonymous": True}}
SEARCH: dict[str, Any] = {"search": BASE}
UNBIND: dict[str, Any] = {"unbind": {}}
AS_LOADER = {"dn": "cn=loader,dc=com", "password": {"env": "PASSWORD"}}


@pytest.mark.parametrize(
    ("operations", "stream", "is_changed"),
    [
        pytest.param([USER, SEARCH], {}, True, id="a mix"),
        pytest.param(
            [{"sequence": [SEARCH, USER]}], {}, True, id="a search comes next"
        ),
        pytest.param(
            [{"sequence": [USER, UNBIND], "name": "a"}, {"sequence": [USER]}, SEARCH],
            {},
            True,
            id="another session's search",
        ),
        pytest.param([ANONYMOUS, SEARCH], {"bind": AS_LOADER}, True, id="anonymous"),
        pytest.param([USER, UNBIND], {}, False, id="binds alone"),
        pytest.param([{"sequence": [USER, SEARCH]}], {}, False, id="each binds first"),
        pytest.param(
            [{"sequence": [SEARCH, USER, UNBIND], "name": "login"}, SEARCH],
            {},
            False,
            id="unbinds",
        ),
        pytest.param([LOADER, SEARCH], {"bind": AS_LOADER}, False, id="its own"),
        pytest.param([ANONYMOUS, SEARCH], {}, False, id="anonymous as before"),
        pytest.param(
            [USER, SEARCH],
            {"connection": {"per_operation": True}},
            False,
            id="one each",
        ),
    ],
)
def test_requests_as_somebody_else_are_found(
    operations: list[Any], stream: dict[str, Any], is_changed: bool
) -> None:
    job = job_of({"operations": operations, **stream})
    assert bool(job.identity_change(job.streams[0])) is is_changed
