# SPDX-License-Identifier: Apache-2.0
"""`data`: the entries of test directories: made, loaded, compared."""

from __future__ import annotations

import click

from ldapslam.cli.data.generate import generate_command
from ldapslam.cli.data.load import load_command
from ldapslam.cli.data.verify import fingerprint_command, verify_command


@click.group("data")
def data_command() -> None:
    """Make the entries of a test directory, load them, compare them."""


data_command.add_command(generate_command)
data_command.add_command(load_command)
data_command.add_command(verify_command)
data_command.add_command(fingerprint_command)
