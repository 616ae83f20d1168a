# SPDX-License-Identifier: Apache-2.0
"""Parents first, and one place of the file up to which all is answered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ldapslam.dataset.add_order import Add, AddOrder, Outcome
from ldapslam.dataset.ldif import Record


def record(dn: str, line: int = 1) -> Record:
    return Record(dn, {}, b"", line, line + 1, 0)


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
    order.answer(top, Outcome.ADDED)
    [middle] = ready(order)
    order.answer(middle, Outcome.REJECTED, "no")
    [last] = ready(order)
    assert last.record.dn == "cn=1,ou=a,DC=x"


def test_the_same_dn_waits_for_the_one_before() -> None:
    order = AddOrder()
    order.take(record("cn=1,dc=x", 1))
    order.take(record("CN=1,dc=x", 5))
    [first] = ready(order)
    order.answer(first, Outcome.ADDED)
    [second] = ready(order)
    assert second.record.line == 5


def test_a_refused_entry_can_stay_in_the_line() -> None:
    order = AddOrder()
    for number in range(3):
        order.take(record(f"cn={number},dc=x", number))
    for add, outcome in zip(
        ready(order), (Outcome.ADDED, Outcome.REJECTED, Outcome.ADDED), strict=True
    ):
        order.answer(add, outcome)
    assert [one.record.line for one in order.settled(with_rejected=False)] == [0]
    assert [one.record.line for one in order.settled(with_rejected=True)] == [1, 2]
    assert not order.line


def test_what_may_be_there_was_or_may_be_sent_and_not_refused() -> None:
    order = AddOrder()
    order.take(record("cn=earlier,dc=x"), may_be_there=True)
    for name in ("added", "refused", "lost", "ready"):
        order.take(record(f"cn={name},dc=x"))
    order.take(record("cn=waits,cn=ready,dc=x"))

    def names() -> list[str]:
        return [one.dn.split(",")[0].removeprefix("cn=") for one in order.perhaps_there]

    assert names() == ["earlier"]
    order.note_ready()
    assert names() == ["earlier", "added", "refused", "lost", "ready"]
    sent = [order.next() for _ in range(4)]
    for add, outcome in zip(sent[1:3], (Outcome.ADDED, Outcome.REJECTED), strict=True):
        assert add is not None
        order.answer(add, outcome)
    assert sent[3] is not None
    order.again(sent[3])
    order.forget_ready()
    assert names() == ["earlier", "added", "lost"]


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
    settled: list[int] = []
    under_way: list[Add] = []
    while len(settled) < len(dns):
        for add in ready(order):
            assert add.record.dn.partition(",")[2] in answered | {""}
            under_way.append(add)
        add = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
        if data.draw(st.booleans()) and add.losses < 3:
            order.again(add)
            continue
        order.answer(add, Outcome.ADDED)
        answered.add(add.record.dn)
        settled += [one.record.line for one in order.settled(with_rejected=True)]
    assert settled == list(range(len(dns)))
