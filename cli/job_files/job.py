# SPDX-License-Identifier: Apache-2.0
"""`job`: the job file's documentation, from the code that reads job files."""

from __future__ import annotations

from typing import Any

import click

from ldapslam.cli.command import command
from ldapslam.cli.console import json_option, put, put_json
from ldapslam.cli.job_files.examples import examples_command
from ldapslam.jobs.describe import describe, topics
from ldapslam.jobs.fields.sections import fields_of
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.types import job_types
from ldapslam.jobs.types.base import JobType


@click.group("job", commands=[examples_command])
def job_command() -> None:
    """The example jobs and the job types."""


def _complete_topic(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[str]:
    return [topic for topic in topics() if topic.startswith(incomplete)]


@command("describe")
@click.argument("topic", required=False, shell_complete=_complete_topic)
def describe_command(topic: str | None) -> None:
    """Explain the job file, or one section of it, such as streams.load."""
    put(describe(topic).rstrip("\n"))


@job_command.command("types")
@json_option
def types_command(as_json: bool) -> None:
    """List the job types with their options, and the operations of a mix."""
    operations = {kind: body.summary() for kind, body in OPERATIONS.items()}
    if as_json:
        types = {name: _type_document(one) for name, one in job_types().items()}
        put_json({"types": types, "operations": operations})
        return
    for name, one in job_types().items():
        put(f"{name:<18} {_first_sentence(one.summary())}")
        options = [
            key if info.is_required() else f"[{key}]"
            for key, info in fields_of(one.Options)
        ]
        if options:
            put(f"{'':<18}   options: {', '.join(options)}")
    put("\noperations of a mix:")
    for kind, text in operations.items():
        put(f"{kind:<18} {_first_sentence(text)}")
    put("\n`ldapslam describe types.NAME` explains a type")


def _type_document(one: type[JobType[Any]]) -> dict[str, Any]:
    return {
        "description": one.summary(),
        "options": {
            key: {"description": info.description, "required": info.is_required()}
            for key, info in fields_of(one.Options)
        },
    }


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].removesuffix(".")
