# SPDX-License-Identifier: Apache-2.0
"""All commands of ldapslam, also hidden commands, and their options."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ldapslam.cli.main import cli


def _below(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        yield f"{prefix} {word}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{prefix} {word}")


#: By full name.
COMMANDS = dict(_below(cli, "ldapslam"))
#: Those that are no groups.
LEAVES = {
    name: one for name, one in COMMANDS.items() if not isinstance(one, click.Group)
}


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


def shown_options(command: click.Command) -> list[click.Option]:
    return [one for one in options(command) if not one.hidden]
