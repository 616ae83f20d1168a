# SPDX-License-Identifier: Apache-2.0
"""What to write in place of options that a command does not have: other tools', or
those of our one-line commands where a job file says it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import click

from ldapslam.base.fault import our_word

if TYPE_CHECKING:
    from ldapslam.jobs.model import Job

_DATA = "other_tools.toml"
#: Table of the data -> whose options it has, in the order of the hints.
TOOLS = {
    "ldapsearch": "ldapsearch",
    "searchrate": "searchrate",
    "ldclt": "ldclt",
    "rsearch": "rsearch",
    "lb": "lb",
    "opendj": "OpenDJ",
    "slamd": "SLAMD",
    "makeldif": "MakeLDIF",
    "k6": "k6",
    "wrk": "wrk",
    "ab": "ab",
    "vegeta": "vegeta",
}
#: Of them, that of the command that makes LDIF; the others are load generators.
_OF_GENERATE = "makeldif"
_NOTHING = "–"
_NO_OPTION = "no option"

#: Parameter of the one-line commands -> where a job has it.
_JOB_FIELDS: Mapping[str, str] = {
    "uris": "--set targets.ROLE=ldap://HOST:PORT",
    "clients": "--set streams.NAME.load.closed.clients=16, or in an open loop "
    "--set streams.NAME.load.open.connections=16",
    "agents": "--set agents.count=2",
    "rate": "--set streams.NAME.load.open.rate=500/s",
    "arrivals": "--set streams.NAME.load.open.arrivals=poisson",
    "rate_file": "--set streams.NAME.load.open.stages.file=FILE",
    "in_flight": "--set streams.NAME.load.open.in_flight=8",
    "think_time": "--set streams.NAME.load.closed.think_time=100ms",
    "count": "--set streams.NAME.count=10000",
    "reconnect_every": "--set streams.NAME.connection.reconnect_every=100",
    "connect_timeout": "--set streams.NAME.connection.connect_timeout=5s",
    "request_timeout": "--set streams.NAME.request_timeout=5s",
    **{
        name: f"--set run.{name}=30s"
        for name in ("duration", "ramp_up", "warm_up", "cool_down")
    },
    "interval": "--set run.interval=1s",
    "seed": "--set seed=1",
    "name": "--set job=NAME",
    "thresholds": "--set 'thresholds=[p99 < 20ms]'",
    "start_tls": "--set tls.start_tls=true",
    "no_verify": "--set tls.verify=false",
    **{name: f"--set tls.{name}=FILE" for name in ("ca_file", "cert_file", "key_file")},
    "bind_dn": "--set bind.dn=DN, or the job's `bind`",
    "password_file": "--set bind.password.file=FILE, or the job's `bind`",
    "password_env": "--set bind.password.env=NAME, or the job's `bind`",
    "no_password": "--set bind.password.file=FILE: a password is no argument",
    "sasl": "--set bind.sasl.mechanism=MECH, or the job's `bind`",
    **{
        name: f"--set bind.sasl.{name}=TEXT" for name in ("authcid", "authzid", "realm")
    },
}
_CLIENTS_OF_SLAMD = "; SLAMD's clients are agents: --set agents.count=N"
_OPERATIONS = "the `operations` of the job's streams: `ldapslam job describe search`"

#: For all commands.
_GLOBAL: Mapping[str, str] = {
    **dict.fromkeys(("-v", "--verbose"), "`ldapslam -v {command}`"),
    **dict.fromkeys(("-q", "--quiet", "--silent"), "`ldapslam -q {command}`"),
}
#: Where a coordinator is, as other fleets' programs name it.
_PLACE = (
    *("-p", "-H", "--host", "--port", "--server", "--connect", "--address", "--url"),
    *("--bind", "--master", "--master-host", "--master-port"),
    *("--coordinator-host", "--coordinator-port"),
)
ONE_LINE = ("search", "modify", "add", "delete", "bind", "mix")
#: Options of `run` that those lack.
_OF_RUN = ("--metrics",)
_LONG_BY_ONE_DASH = re.compile(r"-([A-Za-z][\w-]{2,})(?:=.*)?", re.ASCII)


@dataclass(frozen=True)
class Row:
    """Options of another tool, and what stands for them here."""

    names: str
    here: str
    remarks: str

    @property
    def keys(self) -> frozenset[str]:
        """The options, as `_key` has them."""
        found = set()
        before = ""
        for name in re.split(r"[,;] *", re.sub(r" *\(.*?\)", "", self.names)):
            option, _, word = name.partition(" ")
            if option.startswith("-"):
                before = option if word else ""
            elif before:  # a further word of ldclt's -e
                option, word = before, name
            elif word:
                continue  # it is said in words
            if re.fullmatch(r"-*[A-Za-z][\w-]*", option, re.ASCII):
                found.add(_key(option, word.partition("=")[0]))
        return frozenset(found)


def _key(option: str, word: str = "") -> str:
    """Long names are alike however their words are joined."""
    name = option.lstrip("-")
    if len(name) == 1:
        return f"-{name} {word}".rstrip()
    return re.sub("[-_]", "", name.lower())


@cache
def tables() -> Mapping[str, Sequence[Row]]:
    # not at the start of each command: few ask
    import importlib.resources
    import tomllib

    text = importlib.resources.files(__package__).joinpath(_DATA).read_text("utf-8")
    return {
        name: [Row(*row) for row in table["rows"]]
        for name, table in tomllib.loads(text).items()
    }


def is_long_by_one_dash(command: click.Command, word: str) -> bool:
    """A long option as Go's tools have them: click would take its first letter for an
    option."""
    found = _LONG_BY_ONE_DASH.fullmatch(word)
    return found is not None and (
        f"--{found[1]}" in options_of(command)
        or any(
            re.search(rf"(?<![\w-])-{re.escape(found[1])}\b", row.names)
            for row in tables()["vegeta"]
        )
    )


def meant(
    context: click.Context, option: str, value: str = "", tools: Iterable[str] = TOOLS
) -> str | None:
    """What to write in place of an option of one of these tools."""
    command = context.command
    general = _GLOBAL.get(option, "").format(command=context.info_name)
    if f"-{option}" in options_of(command):
        return f"-{option}"
    close = "".join(difflib.get_close_matches(option, options_of(command), 1))
    is_job = "job_file" in _names(command)
    if is_job and (field := our_word(option.strip("-"), _JOB_FIELDS)):
        return _JOB_FIELDS[field]
    place = place_option(command)
    if place and option in _PLACE:
        return f"{place} HOST:PORT"
    if not (is_job or _is_generate(command) or has_uris(command)):
        return general or close or None
    parameter, _ = _one_line_options(context).get(option, (None, ""))
    if is_job and parameter is not None and parameter.name in _JOB_FIELDS:
        is_of_slamd = bool(place) and option == "--clients"
        return _JOB_FIELDS[parameter.name] + _CLIENTS_OF_SLAMD * is_of_slamd
    if command.name in ONE_LINE and option in _OF_RUN:
        return _of_run(context, option)
    answer = _of_other_tools(context, rows_of(command, option, value, tools))
    if general:
        is_more = answer and not answer.startswith(_NO_OPTION)
        return f"{answer}; {general}" if is_more else general
    if is_job and parameter is not None:
        answer = answer or _OPERATIONS
    return (
        answer or close or "docs/how-to/coming-from.md has the options of other tools"
    )


def in_words_of_job(answer: str, value: str, job: Job) -> str:
    """An answer with the stream and the load that the job has, and with the value."""
    if len(job.streams) != 1:
        return answer
    [stream] = job.streams
    field, load = f"streams.{stream.name}.load", stream.load.open
    clients, rate = f"--set {field}.closed.clients=16", f"--set {field}.open.rate=500/s"
    if load is not None:
        clients = f"--set {field}.open.connections=16"
    if load is None or load.rate is None:
        rate = f"--set '{field}={{open: {{rate: 500/s}}}}'"
    for name, example, written in (("clients", "16", clients), ("rate", "500/s", rate)):
        if re.match(r"\d", value):
            given = f"{value}/s" if name == "rate" and value.isdecimal() else value
            written = written.replace(example, given)
        answer = answer.replace(_JOB_FIELDS[name], written)
    return answer.replace("streams.NAME", f"streams.{stream.name}")


def place_option(command: click.Command) -> str:
    """The option that names the coordinator's address; empty without one."""
    return next(
        (one for one in ("--listen", "--coordinator") if one in options_of(command)), ""
    )


def has_uris(command: click.Command) -> bool:
    return bool(_names(command) & {"uris", "uri"})


def _is_generate(command: click.Command) -> bool:
    return command.name == "generate"


def _names(command: click.Command) -> set[str | None]:
    return {parameter.name for parameter in command.params}


def options_of(command: click.Command) -> dict[str, click.Parameter]:
    return {name: one for one in command.params for name in one.opts}


def _one_line_options(
    context: click.Context,
) -> Mapping[str, tuple[click.Parameter, str]]:
    """Option -> it, and the first of the one-line commands that have it."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    found: dict[str, tuple[click.Parameter, str]] = {}
    for word in ONE_LINE:
        command = root.command.get_command(root, word)
        assert command is not None
        for name, parameter in options_of(command).items():
            found.setdefault(name, (parameter, word))
    return found


def _of_run(context: click.Context, option: str) -> str:
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    run = root.command.get_command(root, "run")
    assert run is not None
    return (
        f"`ldapslam {context.info_name} … --print-job > job.yaml`, then "
        f"`ldapslam run job.yaml {option} {options_of(run)[option].metavar}`"
    )


def rows_of(
    command: click.Command, option: str, value: str, tools: Iterable[str] = TOOLS
) -> list[tuple[str, Row]]:
    """Tool and row of each meaning that the option has elsewhere, with this value."""
    words = re.split("[,=]", value)
    for keys in ({_key(option, word) for word in words if word}, {_key(option)}):
        found = [
            (name, row)
            for name in tools
            if (name == _OF_GENERATE) == _is_generate(command)
            for row in tables()[name]
            if keys & row.keys
        ]
        if found:
            return found
    return []


def _of_other_tools(
    context: click.Context, rows: Iterable[tuple[str, Row]]
) -> str | None:
    """Each meaning once, with its tools where there are several."""
    meanings: dict[str, tuple[list[str], str]] = {}
    for tool, row in rows:
        tools, remarks = meanings.setdefault(_here(context, row), ([], row.remarks))
        tools.append(TOOLS[tool])
    if len(meanings) == 1:
        [(here, (_, remarks))] = meanings.items()
        return f"{here}: {remarks}" if remarks else here
    meanings.pop(_NO_OPTION, None)
    return "; ".join(
        f"{here} ({', '.join(dict.fromkeys(tools))})"
        for here, (tools, _) in meanings.items()
    )


def _here(context: click.Context, row: Row) -> str:
    """A row's second column in the words of a command."""
    if row.here == _NOTHING:
        return _NO_OPTION
    if row.here.startswith("ldap") and "job_file" in _names(context.command):
        return _JOB_FIELDS["uris"]
    codes = re.split("`(-[^`]*)`", row.here)
    codes[1::2] = [_written(context, option) for option in codes[1::2]]
    parts = dict.fromkeys("".join(codes).split(", "))
    return ", ".join(parts)


def _written(context: click.Context, option: str) -> str:
    """An option of ours as it is typed, or what stands for it in a job."""
    own = options_of(context.command).get(option)
    if own is not None:
        return f"{option} {own.metavar or ''}".rstrip()
    parameter, word = _one_line_options(context).get(option, (None, ""))
    if parameter is None:
        return option  # of another command, which the remarks name
    if "job_file" in _names(context.command):
        return _JOB_FIELDS.get(str(parameter.name), _OPERATIONS)
    return f"{option} of `ldapslam {word}`"
