# SPDX-License-Identifier: Apache-2.0
"""Sessions where their ways cross: with time-outs, replaced connections, empty ledgers,
binds before searches. No client stops, and no request is counted twice or never."""

from __future__ import annotations

import base64
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.engine import (
    BUSY_LATER,
    FAILED,
    MESSAGE_ID,
    MS,
    RECEIVE_LAG,
    RESPONSE_TIME,
    SEND_LAG,
    SEQUENCE_TIME,
    SERVICE_TIME,
    Result,
    S,
    Source,
    add,
    delete,
    literal,
    nested,
    open_stream,
    paged_search,
    run,
    sasl_bind,
    search,
    source,
    steady,
    stream,
    uniform,
    value,
    variable,
)
from support.fake_ldap import (
    SEARCH_REQUEST,
    Behaviour,
    FakeLdap,
    Peer,
    Request,
    answer,
    entry,
    never,
    page,
    result,
    tlv,
    with_controls,
)


def ended(settings: dict[str, Any], duration_ns: int = 500 * MS) -> Result:
    return run(settings, duration_ns=duration_ns, grace_ns=200 * MS)


def ended_against(
    behaviour: Behaviour,
    *,
    on_bind: Behaviour | None = None,
    duration_ns: int = 500 * MS,
    **settings: Any,
) -> Result:
    """The run of a stream of one client against a server with this behaviour."""
    with FakeLdap(behaviour, on_bind=on_bind) as server:
        one_client = {"connections": 1, "variables": 1, **settings}
        return ended(stream(server.uri, **one_client), duration_ns)


def without_response(
    action: str, program: bytes, values: Sequence[Source] = ()
) -> dict[str, Any]:
    return {
        "name": action,
        "response_tag": 0,
        "program": program,
        "values": [*values],
        "action": action,
    }


def with_ledgers(uri: str, folder: Path, count: int, **changes: Any) -> dict[str, Any]:
    return stream(uri, variables=1, ledgers=count, ledger_folder=str(folder), **changes)


# -- connections -----------------------------------------------------------------------


def test_connection_at_its_limit_whose_last_request_times_out_is_replaced() -> None:
    def first_is_never_answered(peer: Peer, request: Request) -> bool:
        return peer.requests == 1 or answer(peer, request)

    with FakeLdap(first_is_never_answered) as server:
        outcome = ended(
            open_stream(
                server.uri,
                200,
                connections=1,
                in_flight=2,
                reconnect_operations=2,
                request_timeout_ns=50 * MS,
                total_operations=20,
            ),
            duration_ns=10 * S,
        )
    assert outcome.count("timed_out") == outcome.count("succeeded") == 10
    assert outcome.stream_count("disconnects") == 0


# -- the time of a sequence ------------------------------------------------------------


@pytest.mark.parametrize("ends_with_unbind", [False, True])
def test_time_of_a_sequence_is_that_of_all_its_steps(ends_with_unbind: bool) -> None:
    steps = [(0, 0), (1, 30 * MS)]
    operations = [search(), search(name="second"), without_response("unbind", b"")]
    operations[2]["program"] = literal(b"\x42\x00")

    def after_5_ms(peer: Peer, request: Request) -> bool:
        threading.Event().wait(0.005)
        return answer(peer, request)

    outcome = ended_against(
        after_5_ms,
        total_operations=5,
        operations=operations[: 2 + ends_with_unbind],
        scripts=[(1, [*steps, (2, 0)][: 2 + ends_with_unbind])],
    )
    assert outcome.histogram(SEQUENCE_TIME, operation=0).total == 0
    times = outcome.histogram(SEQUENCE_TIME, operation=1)
    assert times.total == outcome.count("succeeded", operation=1) == 5
    assert 40 * MS <= times.min_ns
    parts = ((RESPONSE_TIME, 0), (RECEIVE_LAG, 0), (RESPONSE_TIME, 1))
    steps_ns = sum(
        outcome.histogram(metric, operation=one).sum_ns for metric, one in parts
    )
    assert times.sum_ns == steps_ns + 5 * 30 * MS


def test_sequence_of_one_step_with_an_answer_has_no_time_of_its_own() -> None:
    operations = [search(), without_response("unbind", literal(b"\x42\x00"))]
    scripts = [(1, [(0, 0), (1, 0)])]
    outcome = ended_against(
        answer, total_operations=5, operations=operations, scripts=scripts
    )
    assert outcome.count("succeeded") == 5
    assert outcome.histogram(SEQUENCE_TIME).total == 0


def test_sequence_that_a_step_ends_has_no_time() -> None:
    fails = iter([0, 0, 0, 32] * 10)
    outcome = ended_against(
        lambda peer, request: peer.send(result(request, next(fails))),
        total_operations=6,
        operations=[search(), search(name="second")],
        scripts=[(1, [(0, 0), (1, 0)])],
    )
    assert outcome.count("failed", operation=1) == 3
    assert outcome.histogram(SEQUENCE_TIME, operation=1).total == 3


# -- binds -----------------------------------------------------------------------------


def test_what_the_client_computes_in_a_bind_is_send_lag_and_no_service_time() -> None:
    """The server answers at once; the client hashes 40,000 times between its steps."""

    def scram(peer: Peer, request: Request) -> bool:
        if b",p=" in request.content:
            return peer.send(result(request, 49))
        nonce = request.content.partition(b",r=")[2]
        challenge = (
            b"r=" + nonce + b"server,s=" + base64.b64encode(b"salt") + b",i=40000"
        )
        return peer.send(result(request, 14, more=tlv(0x87, challenge)))

    outcome = ended_against(
        never,
        on_bind=scram,
        variables=3,
        total_operations=5,
        operations=[sasl_bind("SCRAM-SHA-256")],
        duration_ns=20 * S,
    )
    assert outcome.result_codes() == {49: 5}
    assert outcome.count("requests") == 10
    response, service, lag = (
        outcome.histogram(metric, FAILED).sum_ns
        for metric in (RESPONSE_TIME, SERVICE_TIME, SEND_LAG)
    )
    assert response == service + lag
    assert lag > 2 * service


def test_search_after_a_sasl_bind_is_none() -> None:
    outcome = ended_against(
        answer,
        variables=4,
        think_time_ns=5 * MS,
        operations=[sasl_bind(), search(captures=[(3, b"")])],
        scripts=[(1, [(0, 0), (1, 0)])],
    )
    assert outcome.count("failed", operation=1) == 0
    assert outcome.count("succeeded", operation=1) >= 4


# -- pages -----------------------------------------------------------------------------


def test_pause_is_before_a_paged_search_and_not_before_each_page() -> None:
    pages = 20

    def twenty_pages(peer: Peer, request: Request) -> bool:
        if request.tag != SEARCH_REQUEST or not request.controls:
            return answer(peer, request)
        following = b"" if peer.requests % (pages + 1) == 0 else b"more"
        return peer.send(with_controls(result(request), page(following)))

    outcome = ended_against(
        twenty_pages,
        operations=[search(), paged_search(0)],
        scripts=[(1, [(0, 0), (1, 100 * MS)])],
        duration_ns=S,
    )
    assert outcome.count("succeeded", operation=1) >= 3 * pages


# -- abandons --------------------------------------------------------------------------


def test_abandon_draws_what_its_controls_have() -> None:
    abandon = without_response("abandon", nested(0x50, value(0)), [source(MESSAGE_ID)])
    abandon["program"] += nested(
        0xA0,
        nested(
            0x30,
            literal(tlv(0x04, b"1.2.3.4")),
            nested(0x04, value(1), value(2)),
        ),
    )
    abandon["values"] += [uniform(10, 99), variable(0)]
    awaited_not = search(
        awaits=False, captures=[], lets=[(0, literal(b"of the session"), [])]
    )

    with FakeLdap(lambda peer, request: True) as server:
        outcome = ended(
            stream(
                server.uri,
                variables=1,
                operations=[awaited_not, abandon],
                scripts=[(1, [(0, 0), (1, MS)])],
            )
        )
        controls = [r.controls for r in server.requests if r.tag == 0x50]
    assert outcome.count("succeeded", operation=1) >= 4
    assert controls
    assert all(c.endswith(b"of the session") for c in controls)


# -- ledgers ---------------------------------------------------------------------------


#: Each of the two scripts needs what the other script adds.
CIRCLE = {
    "operations": [
        delete(ledger=0, ledger_take=0),
        add(ledger=1, ledger_put=0),
        delete(ledger=1, ledger_take=0),
        add(ledger=0, ledger_put=0),
    ],
    "scripts": [(1, [(0, 0), (1, 0)]), (1, [(2, 0), (3, 0)])],
}


@pytest.mark.parametrize(
    "changes",
    [CIRCLE, {"operations": [delete(ledger=0, ledger_take=0)]}],
    ids=["a circle", "no add"],
)
def test_ledger_that_nothing_fills_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    load = with_ledgers("ldap://localhost", tmp_path, 2, **changes)
    with pytest.raises(ValueError, match="ledger"):
        run(load)


def test_session_that_finds_the_ledger_empty_at_a_later_step_ends(
    tmp_path: Path,
) -> None:
    # the second delete of a session finds nothing: two are taken, one is put
    with FakeLdap(answer) as server:
        outcome = ended(
            with_ledgers(
                server.uri,
                tmp_path,
                1,
                think_time_ns=MS,
                operations=[
                    add(ledger=0, ledger_put=0),
                    delete(ledger=0, ledger_take=0),
                ],
                scripts=[(1, [(0, 0), (1, 0), (1, 0)])],
            )
        )
    adds = outcome.count("succeeded", operation=0)
    assert outcome.count("succeeded", operation=1) == adds >= 4
    assert outcome.count("substituted", operation=1) == adds


def test_ledger_that_no_operation_uses_is_no_harm(tmp_path: Path) -> None:
    outcome = ended_against(
        answer, think_time_ns=MS, ledgers=1, ledger_folder=str(tmp_path)
    )
    assert outcome.count("succeeded") >= 4


# -- variables -------------------------------------------------------------------------


def test_text_of_a_variable_that_the_stream_does_not_have_is_refused() -> None:
    operation = search(lets=[(0, value(0), [variable(40_000)])])
    with pytest.raises(ValueError, match="variable"):
        run(stream("ldap://localhost", variables=1, operations=[operation]))


# -- everything at once ----------------------------------------------------------------


class Moody:
    """Answers as a rule. Else it closes, resets, keeps silent, answers twice, is slow,
    knows no such object; and a paged search has a few pages."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, peer: Peer, request: Request) -> bool:
        with self._lock:
            mood = self._random.random()
        if mood < 0.01:
            return peer.reset()
        if mood < 0.03 or request.tag == 0x50:
            return mood < 0.02 or request.tag == 0x50
        if mood < 0.04:
            return peer.send(result(request, 32))
        if mood < 0.05:
            return peer.send(2 * result(request))
        if mood < 0.06:
            time.sleep(0.02)
        if request.controls and mood < 0.6:
            last = with_controls(result(request), page(b"more"))
            return peer.send(entry(request) + last)
        return answer(peer, request)


@pytest.mark.parametrize("seed", range(4))
def test_no_session_is_lost_for_ever_or_counted_twice(
    tmp_path: Path, seed: int
) -> None:
    operations = [
        search(),
        search(awaits=False),
        without_response("abandon", nested(0x50, value(0)), [source(MESSAGE_ID)]),
        without_response("unbind", literal(b"\x42\x00")),
        add(ledger_put=0),
        delete(ledger_take=0, ledger_order="random"),
        sasl_bind(first=1),
        paged_search(4),
        search(captures=[(5, b"")]),
    ]
    sessions: list[list[tuple[int, int]]] = [
        [(0, 0)],
        [(1, 0), (2, 3 * MS)],
        [(0, 0), (8, 2 * MS), (3, MS)],
        [(4, 0)],
        [(5, 0)],
        [(6, 0), (8, 0)],
        [(7, 0), (0, MS)],
        [(4, 0), (5, MS), (5, 0)],
        [(0, 0), (1, 0), (2, 0), (0, MS)],
    ]
    with FakeLdap(Moody(seed)) as server:
        outcome = run(
            (
                open_stream(server.uri, 600, profile=[steady(600), BUSY_LATER])
                if seed % 2
                else stream(server.uri)
            )
            | {
                "max_backlog": 300,
                "in_flight": 1,
                "variables": 6,
                "ledgers": 1,
                "ledger_folder": str(tmp_path),
                "operations": operations,
                "scripts": [(1, steps) for steps in sessions],
                "request_timeout_ns": 60 * MS,
                "reconnect_operations": 7 if seed > 1 else 0,
            },
            duration_ns=S,
            grace_ns=500 * MS,
            workers=2,
        )
    sent = [sum(row["sent"] for row in s["operations"]) for s in outcome.snapshots]
    assert all(sent[:10]), "all clients stand still"
    assert sum(outcome.count("succeeded", operation=n) > 0 for n in range(9)) == 9


def test_unbinds_have_a_last_time_though_they_have_no_response() -> None:
    outcome = ended_against(
        answer,
        operations=[without_response("unbind", literal(b"\x42\x00"))],
        total_operations=5,
        duration_ns=S,
    )
    assert outcome.count("succeeded") == 5
    lasts_ns = [one["last_done_ns"] for s in outcome.snapshots for one in s["streams"]]
    assert 0 < max(last_ns or 0 for last_ns in lasts_ns) < S
