# SPDX-License-Identifier: Apache-2.0
"""`completion`: the shell's completion script, for the user to install."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ldapslam.cli.console import put

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
        eval "$(ldapslam completion bash)"                     in ~/.bashrc
        eval "$(ldapslam completion zsh)"                      in ~/.zshrc
        ldapslam completion fish | source                      in config.fish
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None, f"click knows {shell}"
    group = context.find_root().command
    put(completion_class(group, {}, "ldapslam", "_LDAPSLAM_COMPLETE").source())
