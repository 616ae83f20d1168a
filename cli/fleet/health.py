# SPDX-License-Identifier: Apache-2.0
"""`health`: whether a coordinator serves, for people and for probes of containers."""

from __future__ import annotations

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.console import json_option, put, put_json
from ldapslam.cli.options import coordinator_option


@click.command("health")
@coordinator_option
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long to wait for the answer.",
)
@json_option
def health_command(coordinator: str, timeout_s: float, as_json: bool) -> ExitCode:
    """Ask the coordinator whether it serves: its store takes writes.

    Exit code 0 when it does, 5 when it does not or cannot be reached.
    """
    from ldapslam.cli.client import Client

    with Client(coordinator) as client:
        status = client.health(timeout_s)
    if as_json:
        put_json({"coordinator": coordinator, "status": status})
    else:
        put(status)
    return ExitCode.PASS if status == "SERVING" else ExitCode.FLEET
