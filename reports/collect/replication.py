# SPDX-License-Identifier: Apache-2.0
"""What was found of replication after the load, and what that means for the run. Pure.

The observer's words (directory/replication.py) are in the manifest, or why it could not
check. A check that the job asks for and that was not made leaves the run INVALID; one
that found servers apart makes it FAIL, with what is apart as the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldapslam.results.facts import EntryDifference, ReplicationFacts
from ldapslam.results.records import RunRecord

#: Entries in one reason.
_NAMED = 5

_MEANING = {
    "missing": "lacks {dn}",
    "extra": "has {dn} too many",
    "different": "has another {attributes} in {dn}",
}


def replication_of(
    run: RunRecord, observer_failures: Sequence[str]
) -> ReplicationFacts | None:
    """None when the job did not ask for it; with a failure where it was not checked."""
    if run.plan.verify is None:
        return None
    found = run.manifest.replication
    if found is None or not found.model_fields_set:
        why = ": ".join(("no monitor checked", *observer_failures))
        return ReplicationFacts(failure=why)
    return found


def servers_apart(found: ReplicationFacts | None) -> tuple[str, ...]:
    """Why the run is not PASS; empty when all servers hold the same, as far as that was
    checked."""
    if found is None or found.failure:
        return ()
    return (*_behind(found), *_different(found))


def _behind(found: ReplicationFacts) -> list[str]:
    within = f"within {found.within_s:g} s"
    return [
        f"replication of {tree.suffix} did not converge {within}: "
        + ", ".join(sorted(tree.behind) or ["no server says how far it is"])
        + (" behind" if tree.behind else "")
        for tree in found.trees
        if not tree.converged
    ]


def _different(found: ReplicationFacts) -> list[str]:
    content = found.content
    if content is None or not content.difference_count:
        return []
    number, named = content.difference_count, content.differences[:_NAMED]
    of_servers: dict[str, list[str]] = {}
    for one in named:
        of_servers.setdefault(one.server, []).append(_meaning(one))
    texts = [f"{uri} {', '.join(what)}" for uri, what in of_servers.items()]
    if number > len(named):
        texts.append(f"{number - len(named):,} more")
    what = "1 entry differs" if number == 1 else f"{number:,} entries differ"
    first = found.first_server
    return [f"replication: {what} from {first} after the load: {'; '.join(texts)}"]


def _meaning(difference: EntryDifference) -> str:
    """One difference in words, without the server."""
    return _MEANING[difference.difference].format(
        dn=repr(difference.dn), attributes=", ".join(difference.attributes)
    )
