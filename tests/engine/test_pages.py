# SPDX-License-Identifier: Apache-2.0
"""Paging through a search whose filter has patterns: the pages are of one search."""

from __future__ import annotations

from typing import Any

from ldapslam.jobs.operations.search import Search
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Template
from support.engine import (
    MS,
    RESPONSE_TIME,
    SEQUENCE_TIME,
    run,
    searched_value,
    stream,
)
from support.fake_ldap import (
    FakeLdap,
    Peer,
    Request,
    entry,
    page,
    result,
    with_controls,
)


def _values(template: Template) -> list[tuple[Any, ...]]:
    return [
        (v.kind, v.lo, v.hi, v.step, v.width, v.data, v.a, v.b) for v in template.values
    ]


def test_pages_of_a_search_have_the_values_of_the_first() -> None:
    search = Search(base="dc=x", filter="(&(uid=[0:99999])(cn=x))", page_size=10)
    compiled = search.compile(Scope())
    operation = {
        "name": "search",
        "response_tag": 0x65,
        "program": compiled.template.program,
        "values": _values(compiled.template),
        "lets": [
            (let.variable, let.template.program, _values(let.template))
            for let in compiled.lets
        ],
        "cookie_variable": compiled.cookie_variable,
    }
    pages = iter(range(10**6))

    def three_pages(peer: Peer, request: Request) -> bool:
        is_last = next(pages) % 3 == 2
        last = with_controls(result(request), page(b"" if is_last else b"more"))
        return peer.send(entry(request) * (not is_last) + last)

    with FakeLdap(three_pages) as server:
        outcome = run(
            stream(server.uri, operations=[operation], variables=2, connections=1),
            duration_ns=200 * MS,
            grace_ns=100 * MS,
        )
        sent = [searched_value(r.content) for r in server.requests]
    assert outcome.count("failed") == 0
    assert outcome.count("empty") == outcome.count("completed") // 3
    of_searches = outcome.histogram(SEQUENCE_TIME)
    assert of_searches.total == outcome.count("empty")
    assert of_searches.sum_ns > outcome.histogram(RESPONSE_TIME).sum_ns * 0.9
    assert len(sent) >= 9
    assert sent == [number // 3 for number in range(len(sent))]
