# SPDX-License-Identifier: Apache-2.0
"""`--config FILE`: the options of a serving command from a TOML file.

Keys are the options' long names; the command line comes first. An unknown key is an
error. An option that may be repeated takes a list, or one value alone; --notify also
takes a table of channels.

    coordinator = "10.0.0.1:7400"
    label = ["site=a", "rack=3"]
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean
from ldapslam.cli.options import FILE, option


def _read(context: click.Context, own: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(
            f"{path}: {error}", hint='write TOML, such as name = "load-7"'
        ) from error
    options = _options(context.command, own)
    found = {}
    for key, value in settings.items():
        option = options.get(key)
        if option is None:
            raise ConfigError(
                f"{path}: unknown key {key!r}",
                hint=did_you_mean(key, list(options)),
            )
        found[option.name or ""] = _checked(f"{path}: {key}", option, value)
    context.default_map = found


def _checked(place: str, option: click.Option, value: Any) -> Any:
    """What click takes for the option; it may be a secret, and is not shown."""
    if isinstance(value, dict) and option.metavar == "NAME=URL":
        value = [f"{key}={_text(one)}" for key, one in value.items()]
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(one, (list, dict)) for one in values):
        raise ConfigError(
            f"{place}: expected one value" + " or a list of them" * option.multiple,
            hint=f"see `--{place.rpartition(' ')[2]}` in the command's --help",
        )
    return values if option.multiple else value


def _text(value: Any) -> str:
    """A value of a table; {env = "NAME"} is a reference to a secret."""
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _options(command: click.Command, own: click.Parameter) -> dict[str, click.Option]:
    """By long name without dashes: the visible ones but our own."""
    return {
        text.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option) and option is not own and not option.hidden
        for text in option.opts
        if text.startswith("--")
    }


config_option = option(
    "--config FILE",
    "Take options from this TOML file.",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_read,
)
