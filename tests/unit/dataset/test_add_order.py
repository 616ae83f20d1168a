# SPDX-License-Identifier: Apache-2.0
"""Parents are answered before their children are sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ldapslam.dataset.add_order import Add, AddOrder
from ldapslam.dataset.ldif import Record


def record(dn: str, line: int = 1) -> Record:
    return Record(dn, {}, b"", line)


def ready(order: AddOrder) -> list[Add]:
    found = []
    while (add := order.next()) is not None:
        found.append(add)
    return found


def test_children_wait_for_their_parents_response() -> None:
    order = AddOrder()
    for dn in ("dc=x", "OU=a, dc=x", "cn=1,ou=a,DC=x", "dc=y"):
        order.take(record(dn))
    top, other = ready(order)
    assert (top.record.dn, other.record.dn) == ("dc=x", "dc=y")
    order.answer(top)
    [middle] = ready(order)
    order.answer(middle)
    [last] = ready(order)
    assert last.record.dn == "cn=1,ou=a,DC=x"


def test_the_same_dn_waits_for_the_one_before() -> None:
    order = AddOrder()
    order.take(record("cn=1,dc=x", 1))
    order.take(record("CN=1,dc=x", 5))
    [first] = ready(order)
    order.answer(first)
    [second] = ready(order)
    assert second.record.line == 5


@given(st.lists(st.integers(0, 30), max_size=40), st.data())
def test_any_tree_in_any_order_of_answers(
    parents: list[int], data: st.DataObject
) -> None:
    """Entry n + 1 lies below one of the entries before it."""
    dns = ["dc=x"]
    for number, parent in enumerate(parents):
        dns.append(f"cn={number},{dns[parent % len(dns)]}")
    order = AddOrder()
    for line, dn in enumerate(dns):
        order.take(record(dn, line))
    answered: set[str] = set()
    under_way: list[Add] = []
    while len(answered) < len(dns):
        assert order.unanswered_count == len(dns) - len(answered)
        for add in ready(order):
            assert add.record.dn.partition(",")[2] in answered | {""}
            under_way.append(add)
        add = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
        if data.draw(st.booleans()) and add.losses < 3:
            order.retry(add)
            continue
        order.answer(add)
        answered.add(add.record.dn)
    assert not ready(order)
