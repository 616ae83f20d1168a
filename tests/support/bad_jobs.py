# SPDX-License-Identifier: Apache-2.0
"""Job files with faults, and the faults that they have.

tests/unit/jobs/bad_jobs/cases.yaml maps the name of a case to what it changes in a job
without faults: keys of the job, and as `stream.KEY` those of its only stream, with
their values as the job file has them; null removes a key. A case that cannot be written
so has the whole file as `text`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job

FOLDER = Path(__file__).parents[1] / "unit" / "jobs" / "bad_jobs"
CASES = FOLDER / "cases.yaml"

_JOB = {
    "name": "minimal",
    "targets": "{replica: ldap://ds1.example.com}",
    "run": "{duration: 10s}",
}
_STREAM = {
    "name": "readers",
    "target": "replica",
    "load": "{clients: 4}",
    "operations": '- search: {base: "dc=example,dc=com", filter: "(uid=user.[0-99])"}',
}


@cache
def bad_jobs() -> dict[str, dict[str, Any]]:
    """Return all cases by name."""
    cases: dict[str, dict[str, Any]] = yaml.safe_load(CASES.read_text())
    return cases


def job_file(case: Mapping[str, Any]) -> bytes:
    """Return the job file of a case, without its faults."""
    if "text" in case:
        text: str | bytes = case["text"]
        return text if isinstance(text, bytes) else text.encode()
    changes = {key: value for key, value in case.items() if key != "faults"}
    stream = dict(_STREAM)
    for key in [key for key in changes if key.startswith("stream.")]:
        stream[key.removeprefix("stream.")] = changes.pop(key)
    streams = f"- {textwrap.indent(_block(stream), '  ').lstrip()}"
    return _block({**_JOB, "streams": streams, **changes}).encode()


def _block(section: Mapping[str, str | None]) -> str:
    lines = []
    for key, value in section.items():
        if value is None:
            continue
        if "\n" in value or value.startswith("- "):
            lines.append(f"{key}:\n{textwrap.indent(value.rstrip(), '  ')}\n")
        else:
            lines.append(f"{key}: {value}".rstrip() + "\n")
    return "".join(lines)


def faults_of(content: bytes, folder: Path) -> str:
    """Return the faults of a job file as the CLI shows them, without the file's name.

    A copy of the files that cases name must be in `folder`.
    """
    path = folder / "job.yaml"
    path.write_bytes(content)
    try:
        load_job(path)
    except JobErrors as errors:
        lines: list[str] = []
        for fault in errors.faults:
            lines.append(str(fault).removeprefix(f"{path}:"))
            lines.append(f"    hint: {fault.hint}".replace(str(folder), "…"))
        return "\n".join(lines) + "\n"
    return ""


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write(cases: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the file of cases."""
    text = yaml.dump(
        cases, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20
    )
    CASES.write_text(text)
