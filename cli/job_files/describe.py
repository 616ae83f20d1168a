# SPDX-License-Identifier: Apache-2.0
"""`describe`: what job files can have, and the JSON Schemas of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.console import put, put_json, put_text, wants_json
from ldapslam.cli.options import option

_SCHEMAS = ("job", "study", "result")


def _complete_name(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from ldapslam.jobs.describe import topics

    return [topic for topic in topics() if topic.startswith(incomplete)]


@command("describe")
@click.argument("name", required=False, shell_complete=_complete_name)
@option(
    "--schema FILE",
    "Print the JSON Schema of job files, study files or result.json. `# yaml-language-"
    "server: $schema=PATH` at the top of a YAML file names it to an editor.",
    type=click.Choice(_SCHEMAS),
)
def describe_command(name: str | None, schema: str | None) -> ExitCode:
    """Explain a section of job files, an operation or a type; list them all.

    Without NAME, lists what there is, the examples too.

    \b
      ldapslam describe
      ldapslam describe streams.load
      ldapslam describe search
    """
    from ldapslam.jobs.describe import describe

    if schema is not None:
        if name is not None:
            raise click.UsageError("--schema stands in place of NAME")
        put(_schema_text(schema).rstrip("\n"))
    elif name is not None:
        text = _study_text() if name == "study" else describe(name)
        put_text(text)
    elif wants_json():
        put_json(_overview())
    else:
        put("\n".join(_overview_lines(_overview())))
    return ExitCode.PASS


def _study_text() -> str:
    from ldapslam.jobs.describe import describe_section
    from ldapslam.studies.figures import NOTATION
    from ldapslam.studies.study_file import Study

    text = describe_section(Study, "study file")
    return f"{text}\nfigures\n-------\n{NOTATION}"


def _overview() -> dict[str, Any]:
    """Return the names that `describe` takes, and the examples, with a line of each."""
    from ldapslam.cli.job_files.examples import example_files, summary_of
    from ldapslam.jobs.describe import NOTATIONS, sections_of_job
    from ldapslam.jobs.operations import OPERATIONS
    from ldapslam.jobs.types import job_types

    return {
        "sections": sections_of_job(),
        "operations": {kind: body.summary() for kind, body in OPERATIONS.items()},
        "types": {name: kind.summary() for name, kind in job_types().items()},
        "notations": list(NOTATIONS),
        "examples": {
            kind: {name: summary_of(path) for name, path in files.items()}
            for kind, files in example_files().items()
        },
    }


def _overview_lines(overview: Mapping[str, Any]) -> Iterator[str]:
    yield "sections of a job file, and `job`, which has them:"
    yield from (f"  {path}" for path in overview["sections"])
    yield "\noperations of a stream:"
    yield from _listed(overview["operations"])
    yield "\ntypes of a stream, in place of operations:"
    yield from _listed(overview["types"])
    yield "\nstudy: the study file"
    yield f"\nnotations: {', '.join(overview['notations'])}"
    for kind, files in overview["examples"].items():
        yield f"\nexample {kind}, for `ldapslam new`:"
        yield from _listed(files)
    yield "\n`ldapslam describe NAME` explains a section, an operation or a type"


def _listed(texts: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, texts))
    for name, text in texts.items():
        first_sentence = text.split(". ")[0].removesuffix(".")
        yield f"  {name:<{width}}  {first_sentence}"


def _schema_text(document: str) -> str:
    from ldapslam.jobs.schema import job_schema, schema_text

    if document == "job":
        return schema_text(job_schema())
    if document == "study":
        from ldapslam.studies.study_file import study_schema

        return schema_text(study_schema())
    from ldapslam.reports.result import SCHEMA_FILE

    return SCHEMA_FILE.read_text(encoding="utf-8")
