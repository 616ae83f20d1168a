# SPDX-License-Identifier: Apache-2.0
"""Monitors at work: on real servers, as an observer would have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ldapslam.agent.monitoring.choose import monitors_for
from ldapslam.agent.monitoring.reading import Monitor, TargetAccess
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.load import load_job_text

JOB = """\
name: monitored
targets: {{server: {uri}}}
run: {{duration: 10s}}
streams:
  - name: readers
    target: server
    load: {{clients: 1}}
    operations: [{{search: {{base: ""}}}}]
monitors: {monitors}
"""


def target(
    bind_dn: str, password_file: Path, control: Counter[str] | None = None
) -> TargetAccess:
    """By simple bind; `control` has what is asked."""
    asked = Counter[str]() if control is None else control

    def note(kind: str) -> None:
        asked[kind] += 1

    access = ConnectionSettings(bind=BindSettings(bind_dn, password_file.read_bytes()))
    return TargetAccess(access, note)


def monitors(
    uri: str, wanted: str, access: TargetAccess | None = None
) -> list[Monitor]:
    """Those of a job with `monitors: wanted` (YAML) for the role `server`, as the one
    agent of its host has them."""
    job = load_job_text(
        JOB.format(uri=uri, monitors=wanted), file="job.yaml", base=None
    )

    def access_to(_: str) -> TargetAccess:
        assert access is not None
        return access

    return monitors_for(
        job,
        access=access_to,
        is_local=lambda _: True,
        has_directories=access is not None,
        may_read=lambda _: True,
    )


@contextmanager
def opened(monitor: Monitor) -> Iterator[Monitor]:
    monitor.open()
    with closing(monitor):
        yield monitor


def sampled(monitor: Monitor) -> dict[str, float]:
    values = monitor.sample()
    names = [metric.name for metric in monitor.metrics]
    return dict(zip(names, values, strict=True))
