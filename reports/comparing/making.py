# SPDX-License-Identifier: Apache-2.0
"""How runs were made: every difference of job, servers, agents and versions. Pure.

What could not be read of a server is no fact, and is never called equal. Where
each side may have servers of its own, as in labs, facts are `without_places`: what only
says where a server or a host was, or how a password is read, is no difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import yaml

from ldapslam.base.errors import JobErrors
from ldapslam.base.inert import parse_json
from ldapslam.jobs.load import load_job_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import manifest_of
from ldapslam.reports.sections.bulk_imports import made_by
from ldapslam.reports.typeset import flattened
from ldapslam.results.facts import Observation, Said, ServerIdentity

#: Instead of a fact that a server did not show, and of those of a server that was not
#: asked.
NOT_READ = "could not be read"
NOT_ASKED = "could not be read: the job has no monitor of it"
UNREAD = frozenset({NOT_READ, NOT_ASKED})
READ = "was read"

#: Metadata that differs between any two runs.
_OF_THE_RUN = frozenset(
    """
    run_id job_file job_hash seed submitted_utc submitted_by t0_utc started_utc
    finished_utc state state_detail t0 ending adopted agents control_operations
    observations observer_cost replication planned_agents phases job_text files_written
    servers
    """.split()
)
#: Metadata of agents' hosts that affects the statistics.
_OF_AN_AGENT = ("host", "workers", "realtime", "kernel_stamps")

#: Where a server or a host was, not what it is; and when it was started.
_PLACE = re.compile(
    r"coordinator · .*|.* · (boot id|host name|update referral)"
    r"|.* · (olcDbDirectory|nsslapd-directory|nsslapd-db-\w*directory)"
    r"|job file · (targets · .*|tls · ca file|(.* · )?bind · (.* · )?password\b.*)"
)
#: Who binds, of a job; in a lab it is a user of the lab.
_WHO_BINDS = re.compile(r"job file · (.* · )?bind( · .*)?")
#: The text of a job, and its overrides where the text alone does not tell the job.
_JOB, _CHANGES, _LAB = "job file", "changes of the job", "lab"
#: The lab's program tells it.
_BACKEND = "lab · backend"
#: The same, of changes of the job.
_PLACE_OF_OVERRIDE = re.compile(
    r"targets\.[^=]*=|tls\.ca_file=|([^=]*\.)?bind\.([^=]*\.)?password[.=]"
)
_BIND = re.compile(r"((?:[^=]*\.)?bind)=(.*)", re.DOTALL)

#: Fact -> its text in each run, in the order of the runs; None where it lacks.
Facts = dict[str, list[str | None]]


def differences_of(runs: Sequence[Summary], *, without_places: bool = False) -> Facts:
    """What was not the same in all of these runs, and what could not be read in some of
    them: what is not here was the same, where it could be read."""
    facts = [dict(_facts(run, without_places)) for run in runs]
    hidden = [unread_of(run) for run in runs]
    found: Facts = {}
    for name in dict.fromkeys(name for areas in hidden for name in areas):
        found[name] = [areas.get(name, READ) for areas in hidden]
    for name in dict.fromkeys(name for of_run in facts for name in of_run):
        texts = [
            of_run.get(name) or instead_of(name, areas)
            for of_run, areas in zip(facts, hidden, strict=True)
        ]
        # settings that could not be read in some runs: reported for their area
        if len(set(texts) - UNREAD) > 1:
            found[name] = texts
    return found


def facts_of(summary: Summary, *, without_places: bool = False) -> dict[str, str]:
    """How a run was made, with what could not be read."""
    return {**unread_of(summary), **dict(_facts(summary, without_places))}


def facts_before(
    text: str | bytes,
    overrides: Sequence[str],
    lab: Mapping[str, str],
) -> dict[str, str]:
    """What is known of how a run will be made before it is, without places: its job,
    what its lab is made of."""
    known = {**_effective(text, overrides), **dict(flattened({_LAB: lab}))}
    return {
        name: of
        for name, of in known.items()
        if not _PLACE.fullmatch(name) and shows_before(name, in_lab=bool(lab))
    }


def shows_before(name: str, *, in_lab: bool) -> bool:
    """Whether a fact is known before a run. A lab changes who binds."""
    area = name.partition(" · ")[0]
    if area == _LAB:
        return name != _BACKEND
    if in_lab:
        return area == _JOB and not _WHO_BINDS.fullmatch(name)
    return area in (_JOB, _CHANGES)


def _effective(text: str | bytes, overrides: Sequence[str]) -> dict[str, str]:
    """The job with overrides and defaults, and its variables; as it is written where
    that is not the whole job, such as one that extends another file."""
    written = yaml.safe_load(text)
    try:
        job = load_job_text(text, file=_JOB, base=None, overrides=overrides)
    except JobErrors:
        kept = [
            _without_password(one)
            for one in overrides
            if not _PLACE_OF_OVERRIDE.match(one)
        ]
        changes = {_CHANGES: kept} if kept else {}
        of_file = {_JOB: written} if isinstance(written, Mapping) else {}
        return dict(flattened({**of_file, **changes}))
    variables = dict(written.get("vars") or {})
    for override in overrides:
        path, _, value = override.partition("=")
        if path.startswith("vars."):
            variables[path.removeprefix("vars.")] = yaml.safe_load(value)
    content = parse_json(job.canonical_text())
    return dict(flattened({_JOB: {"vars": variables, **content}}))


def instead_of(name: str, hidden: Mapping[str, str]) -> str | None:
    """Return why the run lacks a fact, if it may be among the facts that were not
    read."""
    server = name.partition(" · ")[0]
    places = (text for area, text in hidden.items() if area.startswith(f"{server} · "))
    return next(places, None)


def unread_of(summary: Summary) -> dict[str, str]:
    """What of each server was not read, and why."""
    manifest = summary.run.manifest
    found = {}
    for place, uri in enumerate(_uris(summary), 1):
        observed = manifest.observations.get(uri)
        if not observed and manifest.lab:
            continue  # the lab has recorded how it made the server
        if not observed or observed.facts is None:
            why = NOT_READ if observed else NOT_ASKED
            found[f"server {place} · settings"] = why
            continue
        unreadable = observed.facts.get("unreadable")
        for area in unreadable if isinstance(unreadable, list) else ():
            found[f"server {place} · {area}"] = NOT_READ
    return found


def _facts(summary: Summary, without_places: bool) -> Iterator[tuple[str, str]]:
    if not without_places:
        yield from _all_facts(summary)
        return
    overrides = summary.run.manifest.overrides
    found = _effective(summary.run.job_text, overrides) | dict(_beside_the_job(summary))
    for name, text in found.items():
        if not _PLACE.fullmatch(name):
            yield name, text


def _without_password(override: str) -> str:
    """Return an override; of a bind, the identity without the password."""
    if (found := _BIND.fullmatch(override)) is None:
        return override
    try:
        bind = yaml.safe_load(found[2])
    except yaml.YAMLError:
        return override
    if not isinstance(bind, Mapping):
        return override
    identity = {key: value for key, value in bind.items() if key != "password"}
    if isinstance(sasl := identity.get("sasl"), Mapping):
        identity["sasl"] = {k: v for k, v in sasl.items() if k != "password"}
    return f"{found[1]}={json.dumps(identity, ensure_ascii=False)}"


def _all_facts(summary: Summary) -> Iterator[tuple[str, str]]:
    job = yaml.safe_load(summary.run.job_text)
    if isinstance(job, Mapping):
        yield from flattened({_JOB: job})
    changes = summary.run.manifest.overrides
    yield from flattened({_CHANGES: list(changes)} if changes else {})
    yield from _beside_the_job(summary)


def _beside_the_job(summary: Summary) -> Iterator[tuple[str, str]]:
    manifest = manifest_of(summary)
    rest = {key: value for key, value in manifest.items() if key not in _OF_THE_RUN}
    rest.pop("overrides", None)
    yield from flattened(rest)
    yield from flattened({"imports": made_by(summary)})
    for place, uri in enumerate(_uris(summary), 1):
        yield from flattened({f"server {place}": _of_server(summary, uri)})
    for place, agent in enumerate(summary.agents, 1):
        facts = agent.facts.document()
        known = {key: facts[key] for key in _OF_AN_AGENT if key in facts}
        yield from flattened({f"agent {place}": known})


def _uris(summary: Summary) -> list[str]:
    """The servers in the order in which the job has them."""
    manifest = summary.run.manifest
    observations, known = manifest.observations, manifest.servers
    order = dict.fromkeys(
        uri for stream in summary.run.plan.streams for uri in stream.uris
    )
    uris = [uri for uri in order if uri in known or uri in observations]
    return uris + [uri for uri in observations if uri not in order]


def _of_server(summary: Summary, uri: str) -> Said:
    """Return the facts that a server reports, without empty values."""
    manifest = summary.run.manifest
    facts = manifest.servers.get(uri, ServerIdentity()).document()
    facts.pop("addresses", None)
    facts |= manifest.observations.get(uri, Observation()).facts or {}
    if facts.pop("unreadable", None):
        return {key: value for key, value in facts.items() if value}
    return facts
