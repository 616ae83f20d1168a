# SPDX-License-Identifier: Apache-2.0
"""A job as it is sent to a coordinator: from a file or from a command's options.

It is checked here, and sent with the files that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.yaml_text import tree_lines
from ldapslam.cli.console import put_text, say, write_output_to
from ldapslam.jobs.doubts import doubts
from ldapslam.jobs.load import changed_tree, job_text, load_job
from ldapslam.jobs.model import Job
from ldapslam.proto import operator_pb2 as pb
from ldapslam.transport.messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from ldapslam.cli.composed_job import ComposedJob

#: What a message may hold, and room for the job.
_MAX_FILES_BYTES = MAX_MESSAGE_BYTES - (2 << 20)


def checked_request(
    source: JobSource,
    overrides: Sequence[str],
    lab: Mapping[str, str] | None = None,
) -> pb.SubmitJobRequest:
    """The request that has a job run, which is checked here; JobErrors, ConfigError.
    `lab`: what its servers were made of."""
    job = source.load(overrides)
    say_doubts(job, set())
    return request_of(source, job, overrides, lab)


def say_doubts(job: Job, told: set[str]) -> None:
    """Warn of what the job may not have meant, but for what was told before."""
    for doubt in doubts(job):
        if doubt not in told:
            say(f"warning: {doubt}")
            told.add(doubt)


def request_of(
    source: JobSource,
    job: Job,
    overrides: Sequence[str],
    lab: Mapping[str, str] | None = None,
) -> pb.SubmitJobRequest:
    """The request that has this job run, which the source is with the overrides;
    ConfigError."""
    from ldapslam.cli.client import job_request

    check_size_of_files(job)
    return job_request(
        source.content(),
        job_file=source.name,
        overrides=[*overrides, *connections_of_traces(job)],
        files={name: path.read_bytes() for name, path in job.files.items()},
        lab=lab,
    )


def connections_of_traces(job: Job) -> list[str]:
    """Overrides that give traces the number of connections that their logs need, so
    that the coordinator does not read the logs."""
    return [
        f"streams.{stream.name}.load.trace.connections={stream.load.total_connections}"
        for stream in job.streams
        if stream.trace is not None and stream.trace.connections is None
    ]


def check_size_of_files(job: Job) -> None:
    """ConfigError when the job names more than agents are sent."""
    sizes = {name: path.stat().st_size for name, path in job.files.items()}
    total = sum(sizes.values())
    if total > _MAX_FILES_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        raise ConfigError(
            f"the job's files have {total:,} bytes, agents are sent at most "
            f"{_MAX_FILES_BYTES:,}: the largest is {largest!r}",
            hint="logs of a replay may be compressed with gzip; feeds may be shorter, "
            "since their lines are used again",
        )


@dataclass(frozen=True)
class JobFile:
    """A job file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def content(self) -> bytes:
        return job_text(self.path)

    def load(self, overrides: Sequence[str] = ()) -> Job:
        return load_job(self.path, overrides)

    def printed(self, overrides: Sequence[str]) -> str:
        """The job file that would run, with all that changes it."""
        return "\n".join(tree_lines(self.tree(overrides)))

    def tree(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the content of the file, changed by overrides; JobErrors."""
        return changed_tree(self.content(), self.name, self.path.parent, overrides)


#: A job as it is submitted: its name in the run's manifest, its text, and the same text
#: checked.
JobSource: TypeAlias = "JobFile | ComposedJob"


def print_job(
    source: JobSource, overrides: Sequence[str], out: Path | None
) -> ExitCode:
    """Print the job that would run, checked, or write it to a file."""
    say_doubts(source.load(overrides), set())
    if out is not None:
        write_output_to(out)
    put_text(source.printed(overrides))
    return ExitCode.PASS
