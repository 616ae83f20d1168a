# SPDX-License-Identifier: Apache-2.0
"""What was found of replication after the load, and what that means. Pure.

The observer's words (agent/replication.py) are in the manifest, or why it could not
check. A check that the job asks for and that was not made leaves the run INVALID; one
that found servers apart makes it FAIL, with what is apart as the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldapslam.reports.document import (
    BAD,
    MUTED,
    Block,
    Cell,
    Column,
    Paragraph,
    Table,
)
from ldapslam.reports.results.records import RunRecord
from ldapslam.reports.typeset import NOTHING, count, decimal

#: Entries in one reason.
_NAMED = 5
_ROWS = 50

_MEANING = {
    "missing": "lacks {dn}",
    "extra": "has {dn}, which {first} has not",
    "different": "has another {attributes} in {dn}",
}


@dataclass(frozen=True, slots=True)
class Replication:
    """The check of one run that asked for it."""

    #: As agent/replication.py has it; empty when nothing was found out.
    found: Mapping[str, Any]
    #: Why it could not be checked, or empty.
    unchecked: str

    @property
    def is_checked(self) -> bool:
        return not self.unchecked

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the run is not PASS; empty when all servers hold the same."""
        if self.unchecked:
            return ()
        return (*self._behind(), *self._different())

    def _behind(self) -> list[str]:
        within = f"within {self.found['within_s']:g} s"
        return [
            f"replication of {tree['suffix']} did not converge {within}: "
            + ", ".join(sorted(tree["behind"]) or ["no server says how far it is"])
            + (" behind" if tree["behind"] else "")
            for tree in self.found["trees"]
            if not tree["converged"]
        ]

    def _different(self) -> list[str]:
        content = self.found["content"]
        if not content or not content["difference_count"]:
            return []
        first = self.found["servers"][0]
        named = [described(one, first) for one in content["differences"][:_NAMED]]
        more = content["difference_count"] - len(named)
        if more > 0:
            named.append(f"{more:,} more")
        number = content["difference_count"]
        what = "1 entry differs" if number == 1 else f"{number:,} entries differ"
        return [f"replication: {what} after the load: " + "; ".join(named)]

    def result(self) -> dict[str, Any]:
        """For result.json."""
        if self.unchecked:
            return {"failure": self.unchecked}
        return dict(self.found)


def replication_of(run: RunRecord) -> Replication | None:
    """None when the job did not ask for it."""
    if not (run.plan.get("verify") or {}).get("replication"):
        return None
    found = run.manifest.get("replication")
    if not found:
        return Replication({}, "nobody looked")
    if failure := found.get("failure"):
        return Replication({}, str(failure))
    return Replication(found, "")


def described(difference: Mapping[str, Any], first: str) -> str:
    """One difference in words."""
    meaning = _MEANING[difference["difference"]].format(
        dn=repr(difference["dn"]),
        first=first,
        attributes=", ".join(difference["attributes"]),
    )
    return f"{difference['server']} {meaning}"


def section(replication: Replication) -> tuple[Block, ...]:
    """Of the report."""
    if replication.unchecked:
        text = f"Replication could not be checked: {replication.unchecked}."
        return (Paragraph(text),)
    found = replication.found
    blocks: list[Block] = [_trees(found)]
    if content := found["content"]:
        blocks.append(_entries(found, content))
        if content["differences"]:
            blocks.append(_differences(content))
    return tuple(blocks)


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
                Cell(decimal(tree["after_s"], 3))
                if tree["converged"]
                else Cell(f"not within {found['within_s']:g}", BAD),
                _state(tree, uri, states),
            )
            for tree in found["trees"]
            for uri, states in tree["states"].items()
        ),
        (
            "From the end of the load until every server had the last change of every "
            "source (contextCSN of slapd, RUV of 389-DS).",
        ),
    )


def _state(tree: Mapping[str, Any], uri: str, states: Mapping[str, str]) -> Cell:
    if uri in tree["behind"]:
        return Cell(f"behind on {', '.join(tree['behind'][uri])}", BAD)
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
        (f"{what} with those of {first}.",),
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
