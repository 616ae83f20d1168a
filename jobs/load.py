# SPDX-License-Identifier: Apache-2.0
"""Reads a job file: text to tree, overrides, types, model, or all faults at once.

With context.py the only module of this package that touches the file system. Nothing
is evaluated, and no file costs more than its limits (tree.py) allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ldapslam.base.errors import JobError, JobErrors
from ldapslam.base.fault import Fault, did_you_mean, expected, path_text
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading.expansion import expand_types, explain, field_hint
from ldapslam.jobs.reading.overrides import apply_overrides
from ldapslam.jobs.reading.tree import MAX_BYTES, Finding, Position, Tree, read_tree
from ldapslam.jobs.scripts import compile_streams


def load_job(path: Path, overrides: Sequence[str] = ()) -> Job:
    """The job of a file, changed by `--set` overrides; JobErrors with all faults."""
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
            size = max(len(text), path.stat().st_size)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise JobErrors(
            [JobError(reason, file=str(path), hint=_path_hint(path))]
        ) from None
    if size > MAX_BYTES:
        fault = Fault(
            f"expected a file of at most {MAX_BYTES} bytes, got {size}",
            "is it a job file?",
        )
        raise JobErrors(
            [JobError(fault.reason, file=str(path), line=1, column=1, hint=fault.hint)]
        )
    return load_job_text(text, file=str(path), base=path.parent, overrides=overrides)


def load_job_text(
    text: bytes | str,
    *,
    file: str,
    base: Path | None,
    overrides: Sequence[str] = (),
    files: Mapping[str, Path | bytes] | None = None,
) -> Job:
    """The job of a text. `file` is what faults call it. Files that the job names are
    looked up in `files`, by their name as written, else relative to `base`; with
    neither, they are not looked into."""
    tree = read_tree(text, file)
    job: Job | None = None
    if isinstance(tree.data, dict):
        reading = Reading(files or {}, base)
        apply_overrides(tree, overrides)
        expand_types(tree, reading)
        job = _checked_job(tree, reading)
    elif not tree.findings:
        what = "a mapping with the keys job, targets, run and streams"
        if tree.data is None:
            fault = Fault(f"expected {what}, got an empty file", _MINIMAL_HINT)
        else:
            fault = expected(what, tree.data, _MINIMAL_HINT)
        tree.findings.append(Finding((), fault))
    if tree.findings or job is None:
        raise JobErrors(_sorted_errors(tree))
    return job


def _checked_job(tree: Tree, reading: Reading) -> Job | None:
    """The job of an expanded tree; None, or findings of the tree, when it is wrong."""
    try:
        job = Job.model_validate(tree.data, context=reading)
    except ValidationError as error:
        tree.findings += (
            explain(detail)
            for detail in error.errors()
            # a type may set what is missing, once its options are right
            if detail["type"] != "missing" or detail["loc"][:-1] not in tree.unknown
        )
        return None
    if not tree.findings:
        _need_files_of_templates(job, tree, reading)
    job.set_files(reading.named)
    return job


def _need_files_of_templates(job: Job, tree: Tree, reading: Reading) -> None:
    """The files that requests draw values from: what entry templates name is known only
    now. A request that cannot be made after all is a finding."""
    for index, stream in enumerate(job.streams):
        try:
            (scripts,) = compile_streams([stream], {})
            for template in scripts.templates:
                for name in template.files:
                    reading.need(name)
        except Fault as fault:
            tree.findings.append(Finding(("streams", index, "operations"), fault))


_MINIMAL_HINT = "`ldapslam job describe` explains the job file"


def _path_hint(path: Path) -> str | None:
    if path.is_dir():
        return "name a file in it"
    siblings = [other.name for other in path.parent.glob("*.y*ml")]
    if not path.exists() and siblings:
        return did_you_mean(path.name, siblings, "job files there")
    return None


def _sorted_errors(tree: Tree) -> list[JobError]:
    errors: dict[tuple[Position, str], JobError] = {}
    for finding in tree.findings:
        path, position = tree.position(finding.path, finding.at_key)
        if finding.position is not None:
            path, position = finding.path, finding.position
        error = JobError(
            finding.fault.reason,
            file=position.file,
            line=position.line,
            column=position.column,
            path=path_text(path),
            hint=finding.fault.hint or field_hint(finding.path),
        )
        errors.setdefault((position, str(error)), error)
    return [errors[key] for key in sorted(errors, key=lambda key: _order(key[0]))]


def _order(position: Position) -> tuple[Any, ...]:
    """The file from its top, then the overrides, which have no lines."""
    line, column = position.line or 0, position.column or 0
    return position.line is None, line, column, len(position.file), position.file
