# SPDX-License-Identifier: Apache-2.0
"""Which runs of a job are of the same load: those are one series. Pure.

The same job is the same canonical job, without what only says where the servers are,
how the run is judged, and the seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.base.inert import parse_json
from ldapslam.jobs.load import load_job_text
from ldapslam.reports.typeset import flattened

_NO_LOAD = frozenset(
    {"description", "seed", "targets", "thresholds", "tls", "validity"}
)
#: A name says that many fields; of more, it says the first run.
_MOST_FIELDS = 3

#: Field of the canonical job -> its text.
Load = Mapping[str, str]


def load_of(manifest: Mapping[str, Any]) -> Load:
    """Return the load of a run; only its hash if the job cannot be read."""
    text = manifest.get("job_text")
    try:
        if not text:
            raise ValueError("no job")
        overrides = manifest.get("overrides") or ()
        job = load_job_text(text, file="", base=None, overrides=overrides)
    except (LdapSlamError, ValueError):
        return {"job": str(manifest.get("job_hash") or "")[:12]}
    content: dict[str, Any] = parse_json(job.canonical_text())
    content = {key: one for key, one in content.items() if key not in _NO_LOAD}
    content.get("bind", {}).pop("password", None)
    return dict(flattened(content))


def key_of(load: Load) -> str:
    """Equal of equal loads."""
    return hashlib.sha256(json.dumps(load, sort_keys=True).encode()).hexdigest()


def names_of(job: str, loads: Mapping[str, Load]) -> dict[str, str]:
    """Key -> name of the series, of the runs of a job in the order of their start, by
    their names: by the fields that differ where they are few, else by the first run."""
    known = {key_of(one): one for one in loads.values()}
    if len(known) < 2:
        return dict.fromkeys(known, job)
    fields = dict.fromkeys(field for load in known.values() for field in load)
    differing = [
        field
        for field in fields
        if len({load.get(field) for load in known.values()}) > 1
    ]
    if len(differing) > _MOST_FIELDS:
        first = {key_of(one): run for run, one in reversed([*loads.items()])}
        return {key: f"{job} (as run {first[key]})" for key in known}
    return {
        key: f"{job} ({', '.join(_words(one, load) for one in differing)})"
        for key, load in known.items()
    }


def _words(field: str, load: Load) -> str:
    return f"{field.rpartition(' · ')[2]} {load.get(field) or 'not set'}"
