# SPDX-License-Identifier: Apache-2.0
"""How servers are set up: what differs between them first, the rest in pairs."""

from __future__ import annotations

from typing import Any

from ldapslam.reports.document import Table
from ldapslam.reports.formats.pdf import kept_together
from ldapslam.reports.sections import appendix
from ldapslam.results.facts import Manifest, Observation, ServerIdentity

LONG = "a text that is longer than what stands in a pair of settings"


def manifest(*servers: dict[str, Any]) -> Manifest:
    """Of servers with these facts, as an observer read them."""
    uris = [f"ldap://ds{number}" for number, _ in enumerate(servers, 1)]
    identity = ServerIdentity(vendor_name="x", addresses=("::1",))
    return Manifest(
        servers=dict.fromkeys(uris, identity),
        observations={
            uri: Observation(facts=facts)
            for uri, facts in zip(uris, servers, strict=True)
        },
    )


def texts(table: Table) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in table.rows]


def test_what_differs_has_a_column_for_each_of_few_servers() -> None:
    content = manifest(
        {"version": "2.5", "threads": 16, "cache": None},
        {"version": "2.5", "threads": 8, "cache": None, "more": {"of": [1, 2]}},
    )
    table = appendix.differing(content)
    assert [one.title for one in table.columns] == [
        "Setting",
        "ldap://ds1",
        "ldap://ds2",
    ]
    assert texts(table) == [
        ("threads", "16", "8"),
        ("more · of", "\N{EN DASH}", "1, 2"),
    ]
    # what no server has is left out
    shared, long = appendix.shared(content)
    assert not long.rows
    assert texts(shared) == [("addresses", "::1", "version", "2.5")]


def test_what_differs_between_many_servers_has_a_row_for_each() -> None:
    table = appendix.differing(
        manifest(*({"version": "2.5", "port": number} for number in range(4)))
    )
    assert texts(table)[:2] == [
        ("port", "ldap://ds1", "0"),
        ("port", "ldap://ds2", "1"),
    ]
    assert len(table.rows) == 4


def test_settings_of_one_server_are_all_in_pairs_but_long_ones() -> None:
    content = manifest({"a": 1, "b": 2, "c": True, "index": LONG})
    assert not appendix.differing(content).rows
    pairs, long = appendix.shared(content)
    assert pairs.caption == "Of ldap://ds1"
    assert texts(pairs) == [("addresses", "::1", "b", "2"), ("a", "1", "c", "yes")]
    assert texts(long) == [("index", LONG)]


def test_servers_are_named_by_what_they_say_of_themselves() -> None:
    content = manifest({"vendor": "OpenLDAP", "version": "2.5"}, {"version": "2.6"})
    assert appendix.products(content, {}) == (
        "OpenLDAP 2.5: ldap://ds1; 2.6: ldap://ds2"
    )


def test_rows_of_one_server_stay_together_and_so_does_a_short_table() -> None:
    assert kept_together(["a", "a", "b", "b", "b", "c"]) == [2, 3, 1]
    assert kept_together([str(number) for number in range(26)]) == [26]
    assert kept_together([]) == []
    long = kept_together([str(number) for number in range(40)])
    assert (long[0], long[-1], sum(long)) == (4, 4, 40)
    assert set(long[1:-1]) == {1}
    assert sum(kept_together(["a"] * 50 + ["b"])) == 51
