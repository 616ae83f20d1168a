# SPDX-License-Identifier: Apache-2.0
"""What was found of replication after the load, and what that means for the run. Pure.

The observer's words (directory/replication.py) are in the manifest, or why it could not
check. A check that the job asks for and that was not made leaves the run INVALID; one
that found servers apart makes it FAIL, with what is apart as the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldapslam.results.facts import EntryDifference, ReplicationFacts, Said
from ldapslam.results.records import RunRecord

#: Entries in one reason.
_NAMED = 5

_MEANING = {
    "missing": "lacks {dn}",
    "extra": "has {dn} too many",
    "different": "has another {attributes} in {dn}",
}


@dataclass(frozen=True, slots=True)
class Replication:
    """The check of one run that asked for it."""

    found: ReplicationFacts
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
        within = f"within {self.found.within_s:g} s"
        return [
            f"replication of {tree.suffix} did not converge {within}: "
            + ", ".join(sorted(tree.behind) or ["no server says how far it is"])
            + (" behind" if tree.behind else "")
            for tree in self.found.trees
            if not tree.converged
        ]

    def _different(self) -> list[str]:
        content = self.found.content
        if content is None or not content.difference_count:
            return []
        number, named = content.difference_count, content.differences[:_NAMED]
        of_servers: dict[str, list[str]] = {}
        for one in named:
            of_servers.setdefault(one.server, []).append(_meaning(one))
        found = [f"{uri} {', '.join(what)}" for uri, what in of_servers.items()]
        if number > len(named):
            found.append(f"{number - len(named):,} more")
        what = "1 entry differs" if number == 1 else f"{number:,} entries differ"
        first = self.found.servers[0]
        return [f"replication: {what} from {first} after the load: {'; '.join(found)}"]

    def result(self) -> Said:
        """For result.json."""
        if self.unchecked:
            return {"failure": self.unchecked}
        return self.found.document()


def replication_of(
    run: RunRecord, observer_failures: Sequence[str]
) -> Replication | None:
    """None when the job did not ask for it."""
    if run.plan.verify is None:
        return None
    found = run.manifest.replication
    if found is None or not found.model_fields_set:
        why = ": ".join(("no monitor checked", *observer_failures))
        return Replication(ReplicationFacts(), why)
    return Replication(found, found.failure)


def _meaning(difference: EntryDifference) -> str:
    """One difference in words, without the server."""
    return _MEANING[difference.difference].format(
        dn=repr(difference.dn), attributes=", ".join(difference.attributes)
    )
