# SPDX-License-Identifier: Apache-2.0
"""A job as it is sent to a coordinator: checked here, with the files that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ldapslam.cli.check_thresholds import unsupported_thresholds
from ldapslam.cli.console import say
from ldapslam.cli.job_source import JobSource
from ldapslam.jobs.errors import ConfigError
from ldapslam.jobs.model import Job
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.messages import MAX_MESSAGE_BYTES, PROTOCOL_VERSION, build_version

if TYPE_CHECKING:
    from ldapslam.cli.client import Client

#: What a message may hold, and room for the job.
_MAX_FILES_BYTES = MAX_MESSAGE_BYTES - (2 << 20)


def job_request(source: JobSource, overrides: Sequence[str]) -> pb.SubmitJobRequest:
    """The request that has the job run; JobErrors, ConfigError."""
    from ldapslam.cli.client import operator_name

    files = job_files(source, overrides)
    return pb.SubmitJobRequest(
        protocol_version=PROTOCOL_VERSION,
        build=build_version(),
        job_file=source.name,
        job_text=source.content(),
        overrides=overrides,
        files=files,
        submitted_by=operator_name(),
    )


def job_files(source: JobSource, overrides: Sequence[str]) -> dict[str, bytes]:
    """What the job names, by the path written in it; the job is checked first."""
    job = source.load(overrides)
    check_size_of_files(job)
    for warning in unsupported_thresholds(job):
        say(f"warning: {warning}")
    return {name: path.read_bytes() for name, path in job.files.items()}


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


def submit_job(client: Client, source: JobSource, overrides: Sequence[str]) -> str:
    """Check a job here, then have the coordinator run it; the run's id."""
    files = job_files(source, overrides)
    return client.submit(
        source.content(), job_file=source.name, overrides=overrides, files=files
    )
