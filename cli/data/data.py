# SPDX-License-Identifier: Apache-2.0
"""`data`: the entries of test directories: made, loaded, compared."""

from __future__ import annotations

import click

from ldapslam.cli.data.generate import generate_command
from ldapslam.cli.data.load import load_command
from ldapslam.cli.data.verify import fingerprint_command, verify_command

_COMMANDS = (generate_command, load_command, verify_command, fingerprint_command)


@click.group("data", commands=_COMMANDS)
def data_command() -> None:
    """Make the entries of a test directory, load them, compare them."""
