# SPDX-License-Identifier: Apache-2.0
"""Reads a job file: text to tree, overrides, model, or all of its faults at once.

The only module of this package that touches the file system: it reads the job file,
and looks whether the files that it names are there. Nothing is evaluated, and no file
costs more than its limits (tree.py) allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ldapslam.jobs.errors import JobError, JobErrors
from ldapslam.jobs.fault import Fault, did_you_mean, expected, got
from ldapslam.jobs.model import Job
from ldapslam.jobs.overrides import apply_overrides, path_text
from ldapslam.jobs.references import check_references
from ldapslam.jobs.sections import Section, field_of, fields_of, section_in
from ldapslam.jobs.tree import MAX_BYTES, Finding, Position, Tree, read_tree
from ldapslam.jobs.tree import Path as FieldPath


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
    files: Mapping[str, Path] | None = None,
) -> Job:
    """The job of a text. `file` is what faults call it. Files that the job names are
    looked up in `files`, by their name as written, else relative to `base`; with
    neither, they are not looked for."""
    tree = read_tree(text, file)
    findings = tree.findings
    job: Job | None = None
    if isinstance(tree.data, dict):
        apply_overrides(tree, overrides)
        findings += check_references(tree.data)
        try:
            job = Job.model_validate(tree.data)
        except ValidationError as error:
            findings += (_finding(detail) for detail in error.errors())
        if job is not None:
            places = _places(job, base, files or {})
            findings += _missing_files(tree, places)
            job.set_files(places)
    elif not findings:
        what = "a mapping with the keys job, targets, run and streams"
        if tree.data is None:
            fault = Fault(f"expected {what}, got an empty file", _MINIMAL_HINT)
        else:
            fault = expected(what, tree.data, _MINIMAL_HINT)
        findings.append(Finding((), fault))
    if findings or job is None:
        raise JobErrors(_sorted_errors(tree))
    return job


_MINIMAL_HINT = "`ldapslam job describe` explains the job file"


def _path_hint(path: Path) -> str | None:
    if path.is_dir():
        return "name a file in it"
    siblings = [other.name for other in path.parent.glob("*.y*ml")]
    if not path.exists() and siblings:
        return did_you_mean(path.name, siblings, "job files there")
    return None


def _places(job: Job, base: Path | None, files: Mapping[str, Path]) -> dict[str, Path]:
    places: dict[str, Path] = {}
    for name in job.named_files():
        if name in files:
            places[name] = files[name]
        elif base is not None:
            places[name] = (base / name).absolute()
    return places


def _missing_files(tree: Tree, places: Mapping[str, Path]) -> Iterator[Finding]:
    for path in [path for path in tree.values if path[-2:] == ("tls", "ca_file")]:
        value = _value_at(tree.data, path)
        place = places.get(value) if isinstance(value, str) else None
        if place is not None and not place.is_file():
            hint = f"paths are relative to the job file: {str(place)!r}"
            yield Finding(path, Fault(f"expected a file, got {got(value)}", hint))


def _value_at(data: Any, path: FieldPath) -> Any:
    for step in path:
        data = data[step]
    return data


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
            hint=finding.fault.hint or _field_hint(finding.path),
        )
        errors.setdefault((position, str(error)), error)
    return [errors[key] for key in sorted(errors, key=lambda key: _order(key[0]))]


def _order(position: Position) -> tuple[Any, ...]:
    """The file from its top, then the overrides, which have no lines."""
    line, column = position.line or 0, position.column or 0
    return position.line is None, line, column, len(position.file), position.file


def _finding(detail: ErrorDetails) -> Finding:
    """A finding of one of pydantic's complaints."""
    path = tuple(step for step in detail["loc"] if step != "[key]")
    at_key = "[key]" in detail["loc"]
    value, kind = detail["input"], detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return Finding(path, _unknown_key(path, value), at_key=True)
    if kind == "missing":
        return Finding(path[:-1], _missing_key(path), at_key=True)
    raised = context.get("error")
    if isinstance(raised, Fault):
        return Finding(path, raised, at_key)
    return Finding(path, _explain(kind, value, context, detail["msg"]), at_key)


def _explain(kind: str, value: Any, context: Mapping[str, Any], message: str) -> Fault:
    hint: str | None = None
    if kind == "literal_error":
        return expected(context["expected"].replace("'", "").lower(), value)
    if kind == "string_pattern_mismatch":
        hint = "letters, digits, - and _, beginning with a letter or digit; at most 64"
        return expected("a name", value, hint)
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return expected("a mapping", value)
    if kind == "list_type":
        hint = "write [ ] around it" if isinstance(value, str) else None
        return expected("a list", value, hint)
    if kind.startswith("int_"):
        hint = "without quotes" if isinstance(value, str) and value.isdigit() else None
        return expected("a whole number", value, hint)
    if kind in ("too_short", "string_too_short"):
        return expected("at least one item" if kind == "too_short" else "text", value)
    limits = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("more than", "gt"),
        "less_than_equal": ("at most", "le"),
        "less_than": ("less than", "lt"),
    }
    if kind in limits:
        words, bound = limits[kind]
        return expected(f"{words} {context[bound]}", value)
    return expected(message[:1].lower() + message[1:], value)


def _unknown_key(path: FieldPath, value: Any) -> Fault:
    section, key = _section_at(path[:-1]), str(path[-1])
    known = [name for name, _ in fields_of(section)] if section else []
    if section and section.choice_noun != "key" and isinstance(value, dict):
        noun = section.choice_noun
        hint = did_you_mean(key, section.exactly_one, f"{noun}s")
        return Fault(f"unknown {noun} {key!r}", hint)
    return Fault(f"unknown key {key!r}", did_you_mean(key, known))


def _missing_key(path: FieldPath) -> Fault:
    return Fault(f"the key {str(path[-1])!r} is missing", _field_hint(path))


def _field_hint(path: FieldPath) -> str | None:
    """What the innermost field of a path is for, from its description."""
    while path:
        section = _section_at(path[:-1])
        info = field_of(section, str(path[-1])) if section else None
        if info:
            example = f", such as {info.examples[0]}" if info.examples else ""
            return f"{path[-1]}: {info.description}{example}"
        path = path[:-1]
    return None


def _section_at(path: FieldPath) -> type[Section] | None:
    section: type[Section] | None = Job
    for step in path:
        if isinstance(step, str) and section is not None:
            info = field_of(section, step)
            section = section_in(info.annotation) if info else None
    return section
