# SPDX-License-Identifier: Apache-2.0
"""Options: how commands declare them, and those that several commands have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import click

from ldapslam.base.address import DEFAULT_PORT
from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.base.fault import Fault, got

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]
Overrides = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]

COORDINATOR_VARIABLE = "LDAPSLAM_COORDINATOR"
DEFAULT_COORDINATOR = f"127.0.0.1:{DEFAULT_PORT}"
#: Where the results of local runs go, and the store in the folder of each.
RUNS_FOLDER = Path("ldapslam-runs")
STORE_NAME = "results.sqlite"
#: While a local run is under way: a link to the socket of its coordinator.
SOCKET_NAME = "coordinator"
#: Formats of a report, in the order in which they are made.
FORMATS = ("html", "pdf", "text", "json", "csv", "hlog")
FILE = click.Path(path_type=Path, dir_okay=False)


class _Folder(click.Path):
    """A folder; stdout, which is one file, is none."""

    def convert(self, value: Any, *context: Any) -> Any:
        if value == "-":
            self.fail("a folder is needed: stdout takes one file", *context)
        return super().convert(value, *context)


FOLDER = _Folder(path_type=Path, file_okay=False)


def option(
    spec: str,
    help: str | None = None,
    *,
    parse: Callable[[Any], Any] | None = None,
    **settings: Any,
) -> Decorator:
    """A decorator for `-n --names python_name METAVAR`; the last two may be left out.

    `parse` reads the value, or each value of a repeatable option; its Fault becomes a
    ConfigError that names the option. A default is shown. Other settings are click's.
    """
    words = spec.split()
    last = words[-1]
    if not last.startswith("-") and not (last.isidentifier() and last.islower()):
        settings["metavar"] = words.pop()
    settings.setdefault("show_default", "default" in settings)
    if parse is not None:
        settings["callback"] = _parsed_by(parse)
    return click.option(*words, help=help, **settings)


def flag(spec: str, help: str, **settings: Any) -> Decorator:
    """An option without a value."""
    return click.option(*spec.split(), is_flag=True, help=help, **settings)


def _parsed_by(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    def read(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(parse(one) for one in value)
            return None if value is None else parse(value)
        except Fault as fault:
            name = max(parameter.opts, key=len)
            raise ConfigError(f"{name}: {fault}", hint=fault.hint) from fault

    return read


def folder_option(spec: str, help: str, document: str) -> Decorator:
    """An option for the folder of all results; `document` is what --json prints."""

    def parse(text: str) -> Path:
        if text == "-" or text.endswith((".json", ".csv")):
            raise Fault(
                f"expected a folder, got {got(text)}",
                f"leave it out, or name a folder, which gets {document} and CSV files; "
                f"--json prints {document}; {text}/ is a folder of that name",
            )
        return Path(text)

    return option(spec, help, parse=parse, type=click.Path(file_okay=False))


def add_options(*options: Decorator) -> Callable[[Command], Command]:
    """A decorator that adds arguments and options, in the order of the help."""

    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def grouped(heading: str, *options: Decorator) -> Callable[[Command], Command]:
    """`add_options` below a heading of the help (cli/command.py)."""

    def add(command: Command) -> Command:
        before = _parameters(command)
        command = add_options(*options)(command)
        for parameter in _parameters(command):
            if parameter not in before:
                _HEADINGS.setdefault(parameter, heading)
        return command

    return add


#: Option -> the heading of the help that it stands below.
_HEADINGS: WeakKeyDictionary[click.Parameter, str] = WeakKeyDictionary()


def _parameters(command: Any) -> list[click.Parameter]:
    return list(getattr(command, "__click_params__", ()))


def heading_of(option: click.Parameter) -> str | None:
    """The heading of the help that `grouped` gave the option."""
    return _HEADINGS.get(option)


def parse_text(value: str) -> str:
    """A text that is not empty."""
    if not value.strip():
        raise Fault(
            f"expected a text, got {value!r}",
            "is it a variable that is not set? leave the option out if not wanted",
        )
    return value


def parse_pair(value: str) -> tuple[str, str]:
    """NAME=VALUE; the value may be empty."""
    name, equals, text = value.partition("=")
    if not equals or not name.strip():
        raise Fault(f"expected NAME=VALUE, got {value!r}", "such as name=value")
    return name.strip(), text


def _parse_listen(value: str) -> tuple[str, int]:
    """HOST:PORT, or PORT alone, which is on loopback."""
    _, is_url, place = value.partition("://")
    if is_url:
        raise Fault(
            f"expected HOST:PORT or a port, got {value!r}",
            f"write {place.partition('/')[0]}: it is no URL",
        )
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise Fault(
            f"expected HOST:PORT or a port, got {value!r}", "such as 127.0.0.1:9400"
        )
    return host, int(port)


metrics_option = option(
    "--metrics HOST:PORT",
    "Give figures to Prometheus there, GET /metrics; a port alone is one of this host."
    " Neither encrypted nor authenticated. Off when left out.",
    parse=_parse_listen,
)

#: A job file; `-` is stdin.
job_argument = click.argument("job_file", metavar="JOB", type=FILE)


#: Of every command that runs a job.
print_job_option = flag(
    "--print-job",
    "Print the job file that would run, as the options change it, and run nothing.",
)

set_option = option(
    "--set overrides PATH=VALUE",
    "Change a field of the job, such as run.duration=30s; repeatable.",
    multiple=True,
)


def _complete_variable(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[str]:
    """Variables of the job that stands on the line before, with their values."""
    from ldapslam.jobs.load import variable_values

    # click leaves a line that ends in an option as it is
    job = next(filter(Path.is_file, map(Path, context.args)), None)
    try:
        values = {} if job is None else variable_values(job)
    except LdapSlamError:
        return []
    texts = [f"{name}={value}" for name, value in values.items()]
    return [text for text in texts if text.startswith(incomplete)]


def change_options(command: Any) -> Any:
    """`--set` and `--var`, both as `overrides`."""

    @functools.wraps(command)
    def merged(*args: Any, overrides: Overrides, variables: Pairs, **given: Any) -> Any:
        from ldapslam.jobs.reading.variables import override_of

        changes = (*overrides, *(override_of(*pair) for pair in variables))
        return command(*args, overrides=changes, **given)

    var_option = option(
        "--var variables NAME=VALUE",
        "Give a variable of the job (its `vars`) another value; repeatable.",
        multiple=True,
        parse=parse_pair,
        shell_complete=_complete_variable,
    )
    return set_option(var_option(merged))


def parse_formats(
    _: click.Context | None, __: click.Parameter | None, value: str | None
) -> tuple[str, ...]:
    """`html,pdf` as a tuple; None and `all` are all."""
    if value in (None, "all"):
        return FORMATS
    wanted = tuple(part.strip() for part in str(value).split(",") if part.strip())
    if not wanted or not set(wanted) <= set(FORMATS):
        raise ConfigError(
            f"--format: expected formats separated by commas, got {value!r}",
            hint=f"the formats are {', '.join(FORMATS)}",
        )
    return wanted


format_option = option(
    "--format formats FORMAT,…",
    f"Which reports: {', '.join(FORMATS)}. All when left out.",
    callback=parse_formats,
)
