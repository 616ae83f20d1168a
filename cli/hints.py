# SPDX-License-Identifier: Apache-2.0
"""The hint after an option that does not exist: right, or not given."""

from __future__ import annotations

import click

from ldapslam.base.fault import closest


def with_hint(error: click.NoSuchOption) -> click.UsageError:
    """Return the error with the option that was meant, where that is known."""
    if error.ctx is None:
        return error
    hint = _option_hint(error.ctx, error.option_name)
    text = f"No such option: {error.option_name}. {hint}".rstrip()
    return click.UsageError(text, error.ctx)


def _option_hint(context: click.Context, option: str) -> str:
    from ldapslam.cli.other_tools import counterparts

    if text := counterparts(context.command, option):
        return text
    long_names = [name for name in _options_of(context) if name.startswith("--")]
    if option.startswith("--") and (meant := closest(option, long_names)):
        return f"Did you mean {meant}?"
    return ""


def _options_of(context: click.Context) -> list[str]:
    return [
        name
        for parameter in context.command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
