# SPDX-License-Identifier: Apache-2.0
"""`job`: the job file's documentation, from the code that reads job files."""

from __future__ import annotations

import click

from ldapslam.cli.console import json_option, put, put_json
from ldapslam.jobs.describe import describe
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.schema import job_schema_text


@click.group("job")
def job_command() -> None:
    """What a job file can say."""


@job_command.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of job files, for editors."""
    put(job_schema_text().rstrip("\n"))


@job_command.command("describe")
@click.argument("topic", required=False)
def describe_command(topic: str | None) -> None:
    """Explain the job file, or one section of it, such as streams.load."""
    put(describe(topic).rstrip("\n"))


@job_command.command("types")
@json_option
def types_command(as_json: bool) -> None:
    """List the operations that a stream can send."""
    types = {kind: (body.__doc__ or "").strip() for kind, body in OPERATIONS.items()}
    if as_json:
        put_json(types)
        return
    for kind, text in types.items():
        first_line = " ".join(text.split("\n\n")[0].split())
        put(f"{kind:<12} {first_line}")
