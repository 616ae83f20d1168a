# SPDX-License-Identifier: Apache-2.0
"""Job types at work: the raw tree of a job, with `type` and `options` written out.

This happens before the job is checked as a whole, so that what a type makes is checked
as what a person writes. A fault in what was made is shown where its cause is written:
at the option of the same key, else at the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ldapslam.base.fault import Fault, did_you_mean, expected, got, one_of
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.model import UNKNOWN_TYPE
from ldapslam.jobs.reading.explain import explain, field_hint
from ldapslam.jobs.reading.tree import Finding, Path, Tree
from ldapslam.jobs.types import job_types
from ldapslam.jobs.types.base import JobType

_MIX = "mix"


def expand_types(tree: Tree, reading: Reading) -> None:
    """Write every stream of the tree out; faults become findings of the tree."""
    streams = tree.data.get("streams") if isinstance(tree.data, dict) else None
    if not isinstance(streams, list):
        return
    # streams may be aliases of one another: each becomes a mapping of its own
    tree.data = {**tree.data, "streams": list(streams)}
    for index, stream in enumerate(streams):
        if isinstance(stream, dict):
            expanded = _expanded(tree, reading, ("streams", index), stream)
            tree.data["streams"][index] = expanded


def _expanded(
    tree: Tree, reading: Reading, path: Path, stream: Mapping[str, Any]
) -> dict[str, Any]:
    plain = {key: value for key, value in stream.items() if key != "type"}
    name, raw = stream.get("type", _MIX), stream.get("options")
    job_type = job_types().get(name) if isinstance(name, str) else None
    if job_type is None or job_type.name == _MIX:
        if job_type is None:
            tree.findings.append(Finding((*path, "type"), _unknown(name)))
            tree.unknown.add(path)
            plain["type"] = UNKNOWN_TYPE
        elif raw is not None:
            hint = f"did you forget `type`? known: {', '.join(sorted(job_types()))}"
            fault = Fault("a mix has no options", hint)
            tree.findings.append(Finding((*path, "options"), fault, at_key=True))
        plain.pop("options", None)
        return plain
    plain.pop("options", None)
    for key in job_type.sets:
        if key in stream:
            fault = Fault(
                f"the type {name!r} sets {key!r} itself", "remove one of the two"
            )
            tree.findings.append(Finding((*path, key), fault, at_key=True))
    made = _made(tree, reading, path, job_type, raw, plain)
    if made is None:
        tree.unknown.add(path)
        return {**plain, "type": UNKNOWN_TYPE}
    for key in made:
        tree.made[(*path, key)] = path
    return {**plain, **made}


def _unknown(name: Any) -> Fault:
    if not isinstance(name, str):
        return expected("the name of a job type", name, one_of(sorted(job_types())))
    return Fault(
        f"unknown job type {name!r}", did_you_mean(name, job_types(), "job types")
    )


def _made(
    tree: Tree,
    reading: Reading,
    path: Path,
    job_type: type[JobType[Any]],
    raw: Any,
    stream: Mapping[str, Any],
) -> dict[str, Any] | None:
    """What the type makes of its options; None when they are wrong."""
    where = (*path, "options")
    content = {} if raw is None else raw
    try:
        options = job_type.Options.model_validate(content, context=reading)
    except ValidationError as error:
        for detail in error.errors():
            inner, fault, at_key, position = explain(detail, job_type.Options)
            fault.hint = fault.hint or field_hint(inner, job_type.Options)
            tree.findings.append(Finding((*where, *inner), fault, at_key, position))
        return None
    targets = tree.data.get("targets")
    targets = targets if isinstance(targets, dict) else {}
    try:
        made: Any = job_type().expand_among(options, stream, targets)
    except Fault as fault:
        tree.findings.append(Finding(where, fault))
        return None
    except Exception as error:
        defect = f"{type(error).__name__}: {error}"
    else:
        if isinstance(made, dict) and all(isinstance(key, str) for key in made):
            return made
        defect = f"expected keys of the stream, got {got(made)}"
    tree.findings.append(Finding((*path, "type"), _defect(job_type, defect)))
    return None


def _defect(job_type: type[JobType[Any]], what: str) -> Fault:
    """Of a type, which may be anybody's: the job may be right."""
    where = f"{job_type.__module__}.{job_type.__qualname__}"
    return Fault(
        f"the job type {job_type.name!r} failed: {what}",
        f"a defect of {where}: tell whoever wrote it",
    )
