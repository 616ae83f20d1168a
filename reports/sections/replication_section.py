# SPDX-License-Identifier: Apache-2.0
"""What a report says of replication: propagation during the run, equality after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldapslam.reports.collect.probes import method_text, probes_of
from ldapslam.reports.collect.replication import Replication
from ldapslam.reports.document import (
    BAD,
    MUTED,
    Block,
    Cell,
    Column,
    Paragraph,
    Table,
)
from ldapslam.reports.sections.time_cells import missing, time_columns, times_cells
from ldapslam.reports.summary import OperationSummary, Summary
from ldapslam.reports.typeset import NOTHING, count, decimal

#: More rows would hide the rest of the report; result.json has all of them.
_ROWS = 50
#: Of times that are known by reading.
_POLLED = (
    "Where the entry was read, a change was seen at the next reading: times are up to "
    "that much too long, half of it on average."
)


def replication(summary: Summary) -> tuple[Block, ...]:
    """During the run and after it; nothing when neither was asked for."""
    blocks: list[Block] = []
    if watched := _watched(summary):
        facts = {agent.name: agent.facts for agent in summary.agents}
        blocks.append(_propagation(watched, probes_of(facts)))
    if summary.replication is not None:
        blocks += _verified(summary.replication)
    return tuple(blocks)


def _watched(summary: Summary) -> list[tuple[OperationSummary, str]]:
    """The operations of probes, with the server of each."""
    servers = {
        (stream["name"], operation): uri
        for stream in summary.run.plan.get("streams", ())
        for operation, uri in stream.get("watched", {}).items()
    }
    return [
        (one, servers[one.stream, one.operation])
        for one in summary.operations
        if (one.stream, one.operation) in servers
    ]


def _propagation(
    watched: Sequence[tuple[OperationSummary, str]], probes: Sequence[Mapping[str, Any]]
) -> Table:
    times = [one.times["response_time"] for one, _ in watched]
    methods = {
        (one["stream"], one["operation"]): method_text(one["method"], one["poll_s"])
        for one in probes
    }
    polls = any(one["poll_s"] for one in probes)
    return Table(
        "propagation",
        "Propagation during the run, in the measure phase",
        (Column("Probe"), Column("Server"), Column("told by"), *time_columns()),
        tuple(
            (
                Cell(one.title),
                Cell(uri),
                Cell(methods.get((one.stream, one.operation), NOTHING)),
                *times_cells(each),
            )
            for (one, uri), each in zip(watched, times, strict=True)
        ),
        (
            "In ms: from when a write was sent to the supplier until this host had "
            "word of it from the replica. Of these operations, service time is the "
            "same.",
            *([_POLLED] if polls else ()),
            *missing(times),
        ),
    )


def _verified(replication: Replication) -> list[Block]:
    if replication.unchecked:
        text = f"Replication could not be checked: {replication.unchecked}."
        return [Paragraph(text)]
    found = replication.found
    blocks: list[Block] = [_trees(found)]
    if content := found["content"]:
        blocks.append(_entries(found, content))
        if content["differences"]:
            blocks.append(_differences(content))
    return blocks


def _trees(found: Mapping[str, Any]) -> Table:
    return Table(
        "replication",
        "Convergence after the load",
        (
            Column("Tree"),
            Column("Server"),
            Column("converged after", "s", True),
            Column("state"),
        ),
        tuple(
            (
                Cell(tree["suffix"]),
                Cell(uri),
                _converged(tree, uri, states, found["within_s"]),
                _state(tree, uri, states),
            )
            for tree in found["trees"]
            for uri, states in tree["states"].items()
        ),
        (
            "From when all agents had ended until every server had the last change of "
            "every source (contextCSN of slapd, RUV of 389-DS).",
            *_stale(found),
            *_skipped(found),
        ),
    )


def _stale(found: Mapping[str, Any]) -> list[str]:
    # runs of an earlier version had none
    return [
        f"{tree['suffix']}: left aside are the changes of {', '.join(tree['stale'])}, "
        "of which only some servers know, and none is younger than an hour before the "
        "run; what they wrote is compared with the entries."
        for tree in found["trees"]
        if tree.get("stale")
    ]


def _skipped(found: Mapping[str, Any]) -> list[str]:
    # runs of an earlier version did not say
    skipped = found.get("skipped")
    if not skipped:
        return []
    return [f"Not compared, as not all servers replicate it: {', '.join(skipped)}."]


def _converged(
    tree: Mapping[str, Any], uri: str, states: Mapping[str, str], within_s: float
) -> Cell:
    if tree["converged"]:
        return Cell(decimal(tree["after_s"], 3))
    if uri in tree["behind"] or not states:
        return Cell(f"not within {within_s:g}", BAD)
    return Cell(NOTHING, MUTED)


def _state(tree: Mapping[str, Any], uri: str, states: Mapping[str, str]) -> Cell:
    if uri in tree["behind"]:
        return Cell(f"behind on changes of {', '.join(tree['behind'][uri])}", BAD)
    if not states:
        return Cell("says nothing", BAD)
    return Cell("has all changes")


def _entries(found: Mapping[str, Any], content: Mapping[str, Any]) -> Table:
    first = found["servers"][0]
    differing: dict[str, int] = {}
    for one in content["differences"]:
        differing[one["server"]] = differing.get(one["server"], 0) + 1
    what = (
        "All entries were compared"
        if content["sample"] is None
        else f"The DNs of all entries and a sample of {count(content['sample'])} "
        "entries were compared"
    )
    return Table(
        "replication-entries",
        "Entries after the load",
        (
            Column("Server"),
            Column("entries", "", True),
            Column("differences named", "", True),
        ),
        tuple(
            (
                Cell(uri),
                Cell(count(number)),
                Cell(NOTHING, MUTED)
                if uri == first
                else Cell(
                    count(differing.get(uri, 0)), BAD if uri in differing else ""
                ),
            )
            for uri, number in content["entries"].items()
        ),
        (
            f"{what} with those of {first}; "
            f"{count(content['difference_count'])} differ.",
        ),
    )


def _differences(content: Mapping[str, Any]) -> Table:
    shown = content["differences"][:_ROWS]
    more = content["difference_count"] - len(shown)
    return Table(
        "replication-differences",
        "Entries that differ",
        (
            Column("Server"),
            Column("Entry"),
            Column("is"),
            Column("in"),
        ),
        tuple(
            (
                Cell(one["server"]),
                Cell(one["dn"]),
                Cell(one["difference"], BAD),
                Cell(", ".join(one["attributes"]) or NOTHING),
            )
            for one in shown
        ),
        (f"and {count(more)} more",) if more > 0 else (),
    )
