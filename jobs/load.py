# SPDX-License-Identifier: Apache-2.0
"""Reads a job file: text to tree, overrides, variables, types, model, or all faults.

The path `-` is stdin.

An override `--set path=value` changes the tree before it is checked. A path is keys and
list indexes joined by dots. In place of its index an item of a list may have its
`name`, and an operation its kind, where it is the only one of that kind in the list;
the kind is not repeated: `streams.readers.load.rate=50/s`,
`streams.0.target=replica`, `streams.readers.operations.search.filter=(cn=a)`. The value
is YAML. Missing mappings are made. Faults have the position `--set:N`, N counting from
1, or `--var NAME` for what changes a variable (variables.py).

With context.py the only module of this package that touches the file system. Nothing
is evaluated, and no file costs more than its limits (tree.py) allow.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ldapslam.base.errors import JobError, JobErrors
from ldapslam.base.fault import Fault, did_you_mean, expected, got, path_text
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import Section, keys_of
from ldapslam.jobs.model import Job
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.sequence import Operation, Step
from ldapslam.jobs.reading.expansion import expand_types, explain, field_hint
from ldapslam.jobs.reading.extension import KEY as EXTENDS
from ldapslam.jobs.reading.extension import extend
from ldapslam.jobs.reading.tree import (
    MAX_BYTES,
    NO_JOB,
    Finding,
    Position,
    Tree,
    read_tree,
)
from ldapslam.jobs.reading.tree import Path as FieldPath
from ldapslam.jobs.reading.variables import KEY as VARIABLES
from ldapslam.jobs.reading.variables import (
    Values,
    defaults_of,
    referenced,
    replace_variables,
)
from ldapslam.jobs.scripts import compile_streams

AnySection = TypeVar("AnySection", bound=Section)


def load_job(
    path: Path, overrides: Sequence[str] = (), command: Sequence[str] | None = None
) -> Job:
    """The job of a file, changed by overrides; JobErrors with all faults. `command` are
    the overrides that the user gives; None: all."""
    return load_job_text(
        job_text(path),
        file=str(path),
        base=path.parent,
        overrides=overrides,
        command=overrides if command is None else command,
    )


def load_section(
    path: Path,
    root: type[AnySection],
    overrides: Sequence[str] = (),
    own: Sequence[str] = (),
) -> AnySection:
    """A file that is one section with `vars`, such as a study, changed by overrides;
    JobErrors with all faults. `own` is where the file has overrides of its own, as a
    mapping of paths to values. An override may give a variable that the file does not
    have. The values of all are in the section's `vars`."""
    tree = read_tree(job_text(path), str(path))
    if tree.data is None:
        tree.data = {}
    if isinstance(tree.data, dict) and "streams" in tree.data:
        hint = f"`ldapslam run {path}` runs it; a study names it: `job: {path.name}`"
        fault = Fault("it is a job, not a study", hint)
        tree.findings.append(Finding(("streams",), fault, at_key=True))
    elif isinstance(tree.data, dict):
        defaults = apply_overrides(tree, overrides)
        if changes := _overrides_at(tree, own):
            apply_overrides(tree, [*changes, *overrides])  # which are stronger
        values = replace_variables(tree, {**defaults_of(tree), **defaults})
        if values is not None:
            tree.data[VARIABLES] = dict(values)
    if not tree.findings:
        try:
            return root.model_validate(tree.data, context=Reading({}, path.parent))
        except ValidationError as error:
            tree.findings += (explain(one, root) for one in error.errors())
    raise JobErrors(_sorted_errors(tree, root))


def _overrides_at(tree: Tree, path: Sequence[str]) -> list[str]:
    found: Any = tree.data
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if not path or not isinstance(found, dict):
        return []  # what it is instead is told when the section is checked
    return [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in found.items()
    ]


def variables_of(path: Path) -> frozenset[str]:
    """Names of the variables of a job file; JobErrors when it cannot be read."""
    return frozenset(defaults_of(_extended(path)))


def variable_values(path: Path, overrides: Sequence[str] = ()) -> Values:
    """The variables of a job file, changed by overrides; JobErrors."""
    tree = _extended(path)
    values = replace_variables(tree, apply_overrides(tree, overrides))
    if values is None or tree.findings:
        raise JobErrors(_sorted_errors(tree))
    return values


def written_in(path: Path, key: str) -> Any:
    """What a job file, or what it extends, has at a key, with references to variables;
    None without it. JobErrors when it cannot be read."""
    return _extended(path).data.get(key)


def _extended(path: Path) -> Tree:
    tree = read_tree(job_text(path), str(path))
    if isinstance(tree.data, dict) and extend(tree, Reading({}, path.parent)):
        return tree
    if not tree.findings:
        fault = expected("a job file", tree.data, _MINIMAL_HINT)
        tree.findings.append(Finding((), fault))
    raise JobErrors(_sorted_errors(tree))


def references_of(path: Path) -> frozenset[str]:
    """Names of the variables that a file uses; JobErrors when it cannot be read."""
    return referenced(job_text(path).decode("utf-8", "replace"))


def job_text(path: Path) -> bytes:
    """Return the bytes of a job file; JobErrors when it cannot be read."""
    try:
        if path == _STDIN:
            text = _stdin_text()
            size = len(text)
        else:
            with path.open("rb") as stream:
                text = stream.read(MAX_BYTES + 1)
                size = max(len(text), path.stat().st_size)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise JobErrors(
            [JobError(reason, file=str(path), hint=_path_hint(path))]
        ) from None
    if size > MAX_BYTES:
        reason = f"expected a file of at most {MAX_BYTES} bytes, got {size}"
        too_large = JobError(reason, file=str(path), line=1, column=1, hint=NO_JOB)
        raise JobErrors([too_large])
    return text


_STDIN = Path("-")


@functools.cache
def _stdin_text() -> bytes:
    """Read stdin, once: a command reads its job file as often as it needs it."""
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def load_job_text(
    text: bytes | str,
    *,
    file: str,
    base: Path | None,
    overrides: Sequence[str] = (),
    files: Mapping[str, Path | bytes] | None = None,
    command: Sequence[str] = (),
) -> Job:
    """The job of a text; `file` is its name in faults. Files that the job names are
    found in `files` by that name, else relative to `base`; with neither, they are not
    read. They lie below `base`, unless `command` names them."""
    tree = read_tree(text, file)
    job: Job | None = None
    if isinstance(tree.data, dict) and (key := _key_of_a_study(tree.data)):
        fault = Fault("it is a study, not a job", f"`ldapslam study {file}` runs it")
        tree.findings.append(Finding((key,), fault, at_key=True))
    elif isinstance(tree.data, dict):
        reading = Reading(files or {}, base, command)
        if extend(tree, reading):
            if replace_variables(tree, apply_overrides(tree, overrides)) is not None:
                before, tree.findings = tree.findings, []
                expand_types(tree, reading)
                job = _checked_job(tree, reading)
                wrong = {one.path for one in before}
                before += (one for one in tree.findings if one.path not in wrong)
                tree.findings = before
    elif not tree.findings:
        what = "a mapping with the keys name, targets, run and streams"
        if tree.data is None:
            fault = Fault(f"expected {what}, got an empty file", _MINIMAL_HINT)
        else:
            fault = expected(what, tree.data, _MINIMAL_HINT)
        tree.findings.append(Finding((), fault))
    if tree.findings or job is None:
        raise JobErrors(_sorted_errors(tree))
    return job


def _key_of_a_study(content: Mapping[str, Any]) -> str | None:
    """Return a key that tells that a file is a study; None for a job."""
    if {"targets", "streams", EXTENDS} & content.keys():
        return None
    return next((key for key in ("job", "jobs", "axes") if key in content), None)


def changed_tree(
    text: bytes | str, file: str, base: Path, overrides: Sequence[str]
) -> dict[str, Any]:
    """What a job file says once it has what it extends, its variables and overrides;
    JobErrors."""
    tree = read_tree(text, file)
    if isinstance(tree.data, dict) and extend(tree, Reading({}, base)):
        replace_variables(tree, apply_overrides(tree, overrides))
        if not tree.findings:
            return dict(tree.data)
    raise JobErrors(_sorted_errors(tree))


def _checked_job(tree: Tree, reading: Reading) -> Job | None:
    """The job of an expanded tree; None, or findings of the tree, when it is wrong."""
    is_expanded = not tree.findings
    reading.is_checked = is_expanded
    try:
        job = Job.model_validate(tree.data, context=reading)
    except ValidationError as error:
        tree.findings += (
            explain(detail)
            for detail in error.errors()
            # a type may set a key of the stream, once its options are right
            if is_expanded or detail["type"] != "missing" or len(detail["loc"]) != 3
        )
        return None
    if not tree.findings:
        _need_files_of_templates(job, tree, reading)
    job.set_files(reading.named)
    return job


def _need_files_of_templates(job: Job, tree: Tree, reading: Reading) -> None:
    """Note the files of entry templates, which are known only now. A request that
    cannot be compiled after all is a finding."""
    for index, stream in enumerate(job.streams):
        try:
            (scripts,) = compile_streams([stream], {})
            for template in scripts.templates:
                for name in template.files:
                    reading.need(name)
        except Fault as fault:
            tree.findings.append(Finding(("streams", index, "operations"), fault))


_MINIMAL_HINT = "`ldapslam describe` explains the job file"


def _path_hint(path: Path) -> str | None:
    if re.match("ldap[si]?:/", str(path)):
        return "it is no job file: `ldapslam new URI -o FILE` writes one"
    if path.is_dir():
        return "name a file in it"
    siblings = [other.name for other in path.parent.glob("*.y*ml")]
    if not path.exists() and siblings:
        return did_you_mean(path.name, siblings, "job files there")
    return None


def _sorted_errors(tree: Tree, root: type[Section] = Job) -> list[JobError]:
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
            hint=finding.fault.hint or field_hint(finding.path, root),
        )
        errors.setdefault((position, str(error)), error)
    return [errors[key] for key in sorted(errors, key=lambda key: _order(key[0]))]


def _order(position: Position) -> tuple[Any, ...]:
    """The file from its top, then the overrides, which have no lines."""
    line, column = position.line or 0, position.column or 0
    return position.line is None, line, column, len(position.file), position.file


_EXAMPLE = "such as --set run.duration=30s"


def apply_overrides(tree: Tree, overrides: Sequence[str]) -> Values:
    """Change the tree, with findings; return the defaults that variables had before."""
    defaults = defaults_of(tree)
    for number, override in enumerate(overrides, 1):
        path = override.partition("=")[0]
        is_variable = path.startswith("vars.")
        file = f"--var {path[5:]}" if is_variable else f"--set:{number}"
        try:
            _apply(tree, override, file)
        except Fault as fault:
            position = Position(file, None, None)
            tree.findings.append(Finding((), fault, position=position))
    return defaults


def _apply(tree: Tree, override: str, file: str) -> None:
    path_text, equals, value_text = override.partition("=")
    if not equals or not path_text.strip():
        raise Fault(f"expected path=value, got {got(override)}", _EXAMPLE)
    value = read_tree(value_text, file)
    if value.findings:
        raise value.findings[0].fault
    steps = re.sub(r"\[(\d+)\]", r".\1", path_text.strip()).split(".")
    if not all(steps):
        raise Fault(f"expected a path such as 'run.duration', got {got(path_text)}")
    path: FieldPath = ()
    container = tree.data
    while len(steps) > 1:
        key = _key(container, steps.pop(0), path)
        if isinstance(container, dict) and container.get(key) is None:
            container[key] = {}
            tree.values[(*path, key)] = Position(file, None, None)
        if _is_operation(path, container[key]) and (kind := _kind(container[key])):
            if steps[0] != kind and steps[0] not in _BESIDE_KIND:
                steps.insert(0, kind)
        container, path = container[key], (*path, key)
    key = _key(container, steps[0], path)
    container[key] = value.data
    _move_positions(tree, (*path, key), value)


def _key(container: Any, step: str, path: FieldPath) -> Any:
    """The dict key or list index that a step of a path means."""
    where = path_text(path) or "the job"
    if isinstance(container, dict):
        return step
    if not isinstance(container, list):
        raise Fault(f"{where} is {got(container)}, it has no {step!r}", _EXAMPLE)
    if step.isdecimal():
        if int(step) < len(container):
            return int(step)
        raise Fault(
            f"{where} has {len(container)} items, numbered from 0: there is no {step}",
            f"the last one is {len(container) - 1}",
        )
    names = [item.get("name") if isinstance(item, dict) else None for item in container]
    if step in names:
        return names.index(step)
    kinds = [_kind(item) if _is_operation(path, item) else None for item in container]
    if kinds.count(step) == 1:
        return kinds.index(step)
    if kinds.count(step) > 1:
        raise Fault(
            f"{where} has {kinds.count(step)} operations of the kind {step!r}",
            "use the `name` of one of them, or its index, from 0",
        )
    known = [name for name in (*names, *kinds) if isinstance(name, str)]
    raise Fault(
        f"{where} is a list, it has no item named {step!r}",
        did_you_mean(step, known, "names") if known else "use its index, from 0",
    )


def _is_operation(path: FieldPath, item: Any) -> bool:
    """Whether an item of the list at `path` is an operation or a step of a sequence."""
    return path[-1:] in (("operations",), ("sequence",)) and isinstance(item, dict)


def _kind(operation: Mapping[str, Any]) -> str | None:
    """The kind of an operation that may have faults."""
    return next((kind for kind in _KINDS if kind in operation), None)


_KINDS = (*OPERATIONS, "sequence")
#: Keys of an operation that are not part of its body.
_BESIDE_KIND = (keys_of(Operation).keys() | keys_of(Step).keys()) - set(_KINDS)


def _move_positions(tree: Tree, path: FieldPath, value: Tree) -> None:
    for positions in (tree.values, tree.keys):
        for old in [old for old in positions if old[: len(path)] == path]:
            del positions[old]
    here = Position(value.file, None, None)
    for below in value.values:
        tree.values[(*path, *below)] = here
