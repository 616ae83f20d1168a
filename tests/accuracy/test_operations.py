# SPDX-License-Identifier: Apache-2.0
"""The truth test of test_truth.py for every operation: what the engine says of it is
what the responder recorded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ldapslam.agent._engine import Responder
from support.engine import (
    MS,
    RESPONSE_TIME,
    SERVICE_TIME,
    S,
    in_process,
    literal,
    modify,
    nested,
    search,
    start_responder,
    stream,
    uniform,
    value,
)
from support.fake_ldap import tlv
from support.truth import assert_same_percentiles, record_of

pytestmark = pytest.mark.accuracy

#: Weight and ns; one request of fifty takes 20 ms.
TWO_PER_CENT_TAIL = [(70, 500_000), (20, 1 * MS), (8, 3 * MS), (2, 20 * MS)]
PEOPLE = 1000


def operation(name: str, response_tag: int, program: bytes) -> dict[str, Any]:
    """One with a number of a person as its only value."""
    return {
        "name": name,
        "response_tag": response_tag,
        "program": program,
        "values": [uniform(0, PEOPLE - 1)],
    }


def person(tag: int = 0x04) -> bytes:
    return nested(tag, literal(b"uid=user."), value(0), literal(b",dc=example,dc=com"))


ATTRIBUTE = tlv(0x30, tlv(0x04, b"sn") + tlv(0x31, tlv(0x04, b"Allen")))
WHO_AM_I = tlv(0x80, b"1.3.6.1.4.1.4203.1.11.3")
PASSWORD_MODIFY = tlv(0x80, b"1.3.6.1.4.1.4203.1.11.1")
VERSION = literal(b"\x02\x01\x03")
OPERATIONS = [
    search(),
    modify(),
    operation("add", 0x69, nested(0x68, person(), literal(tlv(0x30, ATTRIBUTE)))),
    operation("delete", 0x6B, person(0x4A)),
    operation(
        "modify_dn",
        0x6D,
        nested(0x6C, person(), literal(tlv(0x04, b"uid=a") + b"\x01\x01\xff")),
    ),
    {
        **operation(
            "compare",
            0x6F,
            nested(
                0x6E, person(), literal(tlv(0x30, tlv(4, b"sn") + tlv(4, b"Allen")))
            ),
        ),
        "success_codes": (5, 6),
    },
    operation("bind", 0x61, nested(0x60, VERSION, person(), literal(tlv(0x80, b"x")))),
    operation(
        "sasl_bind",
        0x61,
        nested(
            0x60,
            VERSION,
            literal(tlv(0x04, b"")),
            nested(
                0xA3,
                literal(tlv(0x04, b"PLAIN")),
                nested(0x04, literal(b"\0user."), value(0), literal(b"\0secret")),
            ),
        ),
    ),
    {
        **operation("extended", 0x78, nested(0x77, literal(WHO_AM_I))),
        "values": [],
    },
    operation(
        "password_modify",
        0x78,
        nested(
            0x77,
            literal(PASSWORD_MODIFY),
            nested(
                0x81, nested(0x30, person(0x80), literal(tlv(0x82, b"of tomorrow")))
            ),
        ),
    ),
]


def new_responder(seed: int) -> Responder:
    return start_responder(delays=TWO_PER_CENT_TAIL, seed=seed, record_capacity=200_000)


def kind(one: dict[str, Any]) -> str:
    """What the responder counts an operation as."""
    name: str = one["name"]
    return {"sasl_bind": "bind", "password_modify": "extended"}.get(name, name)


@pytest.mark.parametrize("one", OPERATIONS, ids=[one["name"] for one in OPERATIONS])
def test_service_time_of_every_operation_is_the_servers(one: dict[str, Any]) -> None:
    server = new_responder(103)
    load = stream(server.uri, connections=8, operations=[one])
    with in_process(load, duration_ns=3 * S, interval_ns=S) as (_, future):
        outcome = future.result()
    completed = outcome.count("succeeded")
    assert completed == server.counts()[kind(one)] == outcome.count("completed")
    assert completed > 5_000
    assert_same_percentiles(outcome.histogram(SERVICE_TIME), record_of(server))


def test_times_of_a_mix_are_told_apart() -> None:
    """All operations on the same connections, 250 us and 12 ms in turn by chance: what
    every operation's own histogram has adds up to what the server has."""
    server = new_responder(104)
    load = stream(server.uri, connections=8, operations=OPERATIONS)
    with in_process(load, duration_ns=4 * S, interval_ns=S) as (_, future):
        outcome = future.result()
    record = record_of(server)
    total = sum(
        outcome.histogram(SERVICE_TIME, operation=number).sum_ns
        for number in range(len(OPERATIONS))
    )
    assert total == pytest.approx(int(record.sum()), rel=0.01)
    counted = Counter[str]()
    for number, one in enumerate(OPERATIONS):
        count = outcome.count("completed", operation=number)
        assert count > 0
        counted[kind(one)] += count
        assert outcome.histogram(RESPONSE_TIME, operation=number).total == count
    assert counted.items() <= server.counts().items()
    assert record.size == np.sum(
        [outcome.count("completed", operation=n) for n in range(len(OPERATIONS))]
    )
