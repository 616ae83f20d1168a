# SPDX-License-Identifier: Apache-2.0
"""`run`: a job on this host (local_run.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ldapslam.base.errors import ExitCode
from ldapslam.base.inert import parse_json
from ldapslam.cli.command import command
from ldapslam.cli.load_options import LoadChanges, load_options
from ldapslam.cli.options import (
    FILE,
    FOLDER,
    RUNS_FOLDER,
    change_options,
    folder_option,
    metrics_option,
    option,
    print_job_option,
)

#: What every command that runs a job here has.
agents_option = option(
    "--agents N",
    "Local agents; when left out, as many as the job wants, else one.",
    type=click.IntRange(1, 256),
)


out_option = folder_option(
    "-o --out DIR",
    f"Folder of the results, with a link in {RUNS_FOLDER}; {RUNS_FOLDER}/RUN_ID when "
    "left out.",
    "result.json",
)


@command("run")
@click.argument(
    "job_file",
    metavar="JOB",
    required=False,
    type=FILE,
)
@agents_option
@change_options
@load_options
@print_job_option
@out_option
@metrics_option
@option(
    "--cleanup RUN",
    "Instead of running a job, remove the entries that a run left because it "
    "was killed: its id, or the folder of its results.",
)
@option(
    "--spool DIR",
    "With --cleanup: the spool of the agent whose entries are left; local runs "
    "and this user's agents are found without.",
    type=FOLDER,
)
@option("--made-of JSON", parse=parse_json, hidden=True)
def run_command(
    job_file: Path | None,
    agents: int | None,
    overrides: Sequence[str],
    load: LoadChanges,
    out: Path | None,
    metrics: tuple[str, int] | None,
    print_job: bool,
    cleanup: str | None,
    spool: Path | None,
    made_of: dict[str, str] | None,
) -> ExitCode:
    """Run JOB here and now: a coordinator and N agents on this host.

    JOB is a job file, or - for stdin.

    The verdict is printed on stdout; then the report is written, in all formats, to a
    folder, which is named at the end. The exit code is the verdict's.
    """
    if cleanup is not None:
        if job_file is not None:
            raise click.UsageError("--cleanup RUN stands in place of a JOB")
        from ldapslam.cli.measure.cleanup import clean_up_run

        return clean_up_run(cleanup, spool, RUNS_FOLDER, click.echo)
    if job_file is None:
        raise click.UsageError("give a JOB to run, or --cleanup RUN")
    if spool is not None:
        raise click.UsageError("--spool goes with --cleanup")
    from ldapslam.cli import submission

    source = submission.JobFile(job_file)
    overrides = load.overrides(source, overrides)
    if print_job:
        return submission.print_job(source, overrides, out)
    from ldapslam.cli.measure.local_run import run_locally

    return run_locally(
        *(source, agents, overrides, out),
        made_of=made_of,
        metrics=metrics,
    )
