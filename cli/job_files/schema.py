# SPDX-License-Identifier: Apache-2.0
"""`schema`: the JSON Schemas of job and study files and of result.json."""

from __future__ import annotations

import click

from ldapslam.cli.command import command
from ldapslam.cli.console import put


@command("schema")
@click.argument("document", type=click.Choice(["job", "study", "result"]))
def schema_command(document: str) -> None:
    """Print a JSON Schema: of job files or study files, for editors, or of result.json.

    `# yaml-language-server: $schema=FILE` at the top of a YAML file names it to an
    editor.
    """
    put(_text(document).rstrip("\n"))


def _text(document: str) -> str:
    from ldapslam.jobs.schema import job_schema, schema_text

    if document == "job":
        return schema_text(job_schema())
    if document == "study":
        from ldapslam.studies.study_file import study_schema

        return schema_text(study_schema())
    from ldapslam.reports.result import SCHEMA_FILE

    return SCHEMA_FILE.read_text(encoding="utf-8")
