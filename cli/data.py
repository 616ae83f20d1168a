# SPDX-License-Identifier: Apache-2.0
"""`data`: the entries of test directories: made, loaded, compared."""

from __future__ import annotations

import click


@click.group("data")
def data_command() -> None:
    """Make the entries of a test directory, load them, compare them."""
