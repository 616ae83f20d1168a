# SPDX-License-Identifier: Apache-2.0
"""`demo`: a real measurement of a temporary slapd, with nothing to prepare."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.console import say
from ldapslam.cli.measure.run import out_option
from ldapslam.cli.options import change_options

#: What configs/jobs/demo.yaml picks its entries from.
ENTRIES = 20_000


@command("demo")
@change_options
@out_option
def demo_command(overrides: tuple[str, ...], out: Path | None) -> ExitCode:
    """Measure a temporary slapd: supplier, replica, data, a mixed job, the report.

    Nothing of the directory is left afterwards. Takes about 40 s.
    """
    from ldapslam.cli.measure.local_run import run_locally
    from ldapslam.cli.submission import JobFile
    from ldapslam.lab import Lab

    say(f"starting a slapd supplier and a replica with {ENTRIES:,} entries")
    job = importlib.resources.files("ldapslam.configs") / "jobs" / "demo.yaml"
    with (
        Lab(replicas=1, entries=ENTRIES) as lab,
        importlib.resources.as_file(job) as job_file,
    ):
        say(f"supplier {lab.supplier.uri}, replica {lab.replicas[0].uri}")
        all_overrides = [
            f"targets.supplier={lab.supplier.uri}",
            f"targets.replica={lab.replicas[0].uri}",
            f"bind.dn={lab.admin_dn}",
            f"bind.password={{file: '{lab.admin_password_file}'}}",
            *overrides,
        ]
        return run_locally(JobFile(job_file), None, all_overrides, out)
