# SPDX-License-Identifier: Apache-2.0
"""What a report says of replication: propagation during the run, equality after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ldapslam.reports.collect.job_notes import method_text, probes_of
from ldapslam.reports.collect.replication import Replication
from ldapslam.reports.document import (
    BAD,
    MUTED,
    Block,
    Cell,
    Column,
    Paragraph,
    Table,
    counted,
    number,
    table,
)
from ldapslam.reports.model import OperationSummary, Summary
from ldapslam.reports.typeset import (
    NOTHING,
    count,
    decimal,
    missing,
    times_columns,
)

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
    methods = {
        (one["stream"], one["operation"]): method_text(one["method"], one["poll_s"])
        for one in probes
    }
    rows = [
        (
            one.title,
            uri,
            methods.get((one.stream, one.operation), NOTHING),
            one.times["response_time"],
        )
        for one, uri in watched
    ]
    return table(
        "propagation",
        "Propagation during the run, in the measure phase",
        rows,
        (Column("Probe"), lambda row: row[0]),
        (Column("Server"), lambda row: row[1]),
        (Column("told by"), lambda row: row[2]),
        *times_columns(),
        notes=(
            "In ms: from when a write was sent to the supplier until this host had "
            "word of it from the replica. Of these operations, service time is the "
            "same.",
            *[_POLLED] * any(one["poll_s"] for one in probes),
            *missing([times for *_, times in rows]),
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
    return table(
        "replication",
        "Convergence after the load",
        [
            (tree, uri, states)
            for tree in found["trees"]
            for uri, states in tree["states"].items()
        ],
        (Column("Tree"), lambda row: str(row[0]["suffix"])),
        (Column("Server"), lambda row: str(row[1])),
        (
            number("converged after", "s"),
            lambda row: _converged(*row, found["within_s"]),
        ),
        (Column("state"), lambda row: _state(*row)),
        notes=(
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
    differing = Counter(one["server"] for one in content["differences"])
    what = "All entries were compared"
    if content["sample"] is not None:
        what = (
            f"The DNs of all entries and a sample of {count(content['sample'])} "
            "entries were compared"
        )
    return table(
        "replication-entries",
        "Entries after the load",
        content["entries"].items(),
        (Column("Server"), lambda row: str(row[0])),
        (number("entries"), lambda row: count(row[1])),
        (
            number("differences named"),
            lambda row: (
                Cell(NOTHING, MUTED)
                if row[0] == first
                else counted(differing[row[0]], count(differing[row[0]]))
            ),
        ),
        notes=(
            f"{what} with those of {first}; "
            f"{count(content['difference_count'])} differ.",
        ),
    )


def _differences(content: Mapping[str, Any]) -> Table:
    shown: Sequence[Mapping[str, Any]] = content["differences"][:_ROWS]
    more = content["difference_count"] - len(shown)
    return table(
        "replication-differences",
        "Entries that differ",
        shown,
        (Column("Server"), lambda one: str(one["server"])),
        (Column("Entry"), lambda one: str(one["dn"])),
        (Column("is"), lambda one: Cell(one["difference"], BAD)),
        (Column("in"), lambda one: ", ".join(one["attributes"]) or NOTHING),
        notes=[f"and {count(more)} more"] * (more > 0),
    )
