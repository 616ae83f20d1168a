# SPDX-License-Identifier: Apache-2.0
"""`--config FILE`: the options of a serving command from a TOML file.

Keys are the options' long names; the command line comes first. An unknown key is an
error. An option that may be repeated takes a list, or one value alone.

    coordinator = "10.0.0.1:7400"
    label = ["site=a", "rack=3"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean
from ldapslam.base.units import format_duration, format_size
from ldapslam.cli.options import FILE, option

_FILE_KEY = "ldapslam.settings_file"


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
    context.meta[_FILE_KEY] = path


class Setting(NamedTuple):
    """An option as it is in force."""

    name: str
    #: For people; empty when it is left out.
    value: str
    #: Where it comes from.
    source: str


def settings_in_force(context: click.Context, own: Container[str]) -> list[Setting]:
    """All options of a serving command, without those named in `own`."""
    found = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if not isinstance(parameter, click.Option) or name in own:
            continue
        if parameter.hidden or parameter.is_eager or name not in context.params:
            continue
        value = _shown(name, context.params[name])
        text = max(parameter.opts, key=len).removeprefix("--")
        found.append(Setting(text, value, _source(context, parameter)))
    return found


def _source(context: click.Context, option: click.Option) -> str:
    match context.get_parameter_source(option.name or ""):
        case ParameterSource.COMMANDLINE:
            return "command line"
        case ParameterSource.ENVIRONMENT:
            return f"variable {option.envvar}"
        case ParameterSource.DEFAULT_MAP:
            return f"{context.meta[_FILE_KEY]}"
    return "default"


#: Last part of an option's Python name -> its value for people.
_UNITS: dict[str, Callable[[Any], str]] = {
    "ns": format_duration,
    "bytes": format_size,
    "s": lambda value: f"{value:g}/s",
}


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    show = _UNITS.get(name.rpartition("_")[2], str)
    return show(value)


def _checked(place: str, option: click.Option, value: Any) -> Any:
    """What click takes for the option; it may be a secret, and is not shown."""
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(one, (list, dict)) for one in values):
        raise ConfigError(
            f"{place}: expected one value" + " or a list of them" * option.multiple,
            hint=f"see `--{place.rpartition(' ')[2]}` in the command's --help",
        )
    return values if option.multiple else value


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
