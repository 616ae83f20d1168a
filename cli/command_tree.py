# SPDX-License-Identifier: Apache-2.0
"""All commands: their headings, names, modules and one line of help each.

A module is imported when its command is called, so that `ldapslam list` does not load
matplotlib, and `ldapslam --help` imports none.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from ldapslam.base.fault import closest
from ldapslam.cli.command import CommonOptions

_PACKAGE = "ldapslam.cli"
#: Commands of other groups in the answer to an unknown command.
_MOST_OTHERS = 2


class Entry(NamedTuple):
    """A command, or a group of commands."""

    help: str
    #: The module of cli/ that has it, as `NAME_command`; a group has none.
    module: str = ""
    #: The commands of a group.
    commands: Mapping[str, Entry] = {}


def _entries(module: str, **helps: str) -> dict[str, Entry]:
    """Commands by their names; `{name}` in the module's name is the command's."""
    return {name: Entry(help, module.format(name=name)) for name, help in helps.items()}


_QUICK = _entries(
    "measure.quick",
    search="Search, as searchrate and lb do.",
    add="Add entries, as addrate does; they are removed at the end.",
    modify="Modify entries, as modrate does.",
    delete="Delete entries that are there; nothing brings them back.",
    bind="Measure binds, or a search and then a bind, as authrate does.",
)
_RESULTS = {
    **_entries(
        "results.{name}",
        verify="Verify that the results of RUN are unaltered, and who signed them.",
        history="Show how figures change from run to run, and where they shifted.",
    ),
    **_entries(
        "study.{name}",
        baseline="Save runs as a baseline for `gate --baseline`, or show the baseline "
        "in FILE.",
    ),
    **_entries(
        "results.store",
        backup="Copy the store to FILE, also while a coordinator is writing to it.",
        prune="Remove old runs from a results store, with all that they measured.",
    ),
}
_LAB = _entries(
    "data.lab",
    up="Bring up servers that stay; print where they are and targets for a job file.",
    down="End all servers of the lab NAME ('lab' without one) and remove its folder.",
    status="List the labs and their servers: which run, and which are in sync.",
)
_DATA = _entries(
    "data.{name}",
    generate="Make the entries of TEMPLATE, a file or the name of an example template.",
    load="Add the entries of FILE (LDIF, also gzipped) to a directory.",
    verify="Compare the entries of a directory with EXPECTED, or print its "
    "fingerprint.",
)
_SCHEDULE = _entries(
    "fleet.schedule",
    list="List the schedules with their next five times, or all about SCHEDULE.",
    set="Make SCHEDULE active, or pause it: it begins no runs until it is active "
    "again.",
    remove="Remove SCHEDULE; runs that it made stay.",
)
_PKI = _entries(
    "serve.pki",
    init="Make a certificate authority.",
    issue="Make a key and a certificate, or renew one; print the folder for "
    "`agent --tls`.",
    list="List the certificates with their expiry.",
    revoke="Revoke NAME's certificates; a coordinator with --pki refuses them at once.",
    token="Make a join token: its first user becomes NAME.",
)
_FLEET = {
    **_entries(
        "fleet.{name}",
        agents="List the agents that the coordinator knows, or all about NAME.",
    ),
    **_entries(
        "fleet.operate",
        watch="Show RUN until it ends, then its result; exit with its verdict.",
        cancel="End RUN early; what it measured is kept.",
    ),
    "schedule": Entry(
        "Schedules, which `ldapslam submit --cron` and `--every` make.",
        commands=_SCHEDULE,
    ),
    **_entries(
        "fleet.operate",
        status="Ask the coordinator whether it serves: whether its store takes writes.",
    ),
    **_entries(
        "fleet.schedule",
        audit="List who submitted, cancelled or scheduled what, and who was refused.",
    ),
    "pki": Entry(
        "Make and revoke the certificates of a fleet.\n\nAll of it happens in one "
        "folder, on the coordinator's host or on one with no other users: with its "
        "ca.key, anybody can make any certificate.",
        commands=_PKI,
    ),
    **_entries(
        "serve.{name}",
        bundle="Pack this ldapslam for hosts without a network or a compiler.",
    ),
}

#: Heading -> name -> command, in the order of `ldapslam --help`.
COMMANDS = {
    "Measure": {
        **_entries(
            "measure.{name}",
            demo="Measure a temporary slapd: supplier, replica, data, a mixed job, the "
            "report.",
        ),
        **_entries(
            "job_files.{name}",
            new="Write a job file for the directory at URI, or of EXAMPLE, or of LOG….",
        ),
        **_entries(
            "measure.{name}",
            check="Check JOB before it runs: what it would do, and what a few of its "
            "requests meet.",
            run="Run JOB here and now: a coordinator and N agents on this host.",
        ),
        "quick": Entry(
            "Put single operations on a directory, without a job file.",
            commands=_QUICK,
        ),
        **_entries(
            "job_files.{name}",
            describe="Explain a section of job files, an operation or a type; list "
            "them all.",
        ),
    },
    "Many runs": _entries(
        "study.{name}",
        study="Run a job at every point of FILE, and report what came out.",
        capacity="Find the highest load at which JOB still meets an objective.",
        gate="Compare an old and a new server under JOB; fail on a regression.",
    ),
    "Results": {
        **_entries(
            "fleet.operate",
            list="List the runs, newest first: those of this folder, else a "
            "coordinator's.",
            show="Show the state, times, agents and log of RUN.",
        ),
        **_entries(
            "results.{name}",
            report="Write the reports of RUN; print their paths on stdout.",
            compare="Compare runs: how they were made, and whether their figures "
            "differ.",
        ),
        "results": Entry(
            "Verify, compare over time, keep and prune results.", commands=_RESULTS
        ),
    },
    "Directories and data": {
        "lab": Entry(
            "Bring up temporary slapd or 389-DS servers, with replicas and data.\n\n"
            "Everything is in one folder and runs as this user; `lab down` leaves "
            "nothing.",
            commands=_LAB,
        ),
        "data": Entry(
            "Make the entries of a test directory, load them, compare them.",
            commands=_DATA,
        ),
    },
    "A fleet": {
        **_entries(
            "fleet.{name}",
            submit="Have the fleet run JOB, at once, later or by a schedule.",
        ),
        "fleet": Entry(
            "Agents, runs under way, schedules and certificates of a fleet.",
            commands=_FLEET,
        ),
        **_entries(
            "serve.serve",
            coordinator="Take agents and jobs, and keep the results, until SIGTERM or "
            "Ctrl-C.",
            agent="Generate load for a coordinator until SIGTERM or Ctrl-C, which "
            "drain.",
        ),
    },
}


class Commands(CommonOptions, click.Group):
    """A group that imports a command when it is called."""

    def __init__(
        self,
        name: str | None,
        headings: Mapping[str, Mapping[str, Entry]],
        params: Sequence[click.Parameter] = (),
        **settings: Any,
    ) -> None:
        super().__init__(name, [*params], **settings)
        self.headings = headings
        self.entries = {
            name: entry
            for entries in headings.values()
            for name, entry in entries.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if not entry.module:
            return Commands(cmd_name, {"Commands": entry.commands}, help=entry.help)
        module = importlib.import_module(f"{_PACKAGE}.{entry.module}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        self._check_names(ctx, args)
        return super().resolve_command(ctx, args)

    def _check_names(self, context: click.Context, words: Sequence[str]) -> None:
        """Raise a UsageError for a word that is no command of its group."""
        entries: Mapping[str, Entry] = self.entries
        path = context.command_path
        for word in words:
            if not entries or word.startswith("-"):
                return
            if word not in entries:
                raise click.UsageError(
                    f"no command '{path} {word}'{_hint(word, path, entries)}", context
                )
            entries = entries[word].commands
            path = f"{path} {word}"

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        width = max(map(len, self.entries))
        for heading, entries in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name.ljust(width), short_help(entry))
                        for name, entry in entries.items()
                    ]
                )

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """Names of commands without importing them; options as click has them."""
        commands = [
            CompletionItem(name, help=short_help(entry))
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _hint(word: str, group: str, entries: Mapping[str, Entry]) -> str:
    """Return the command of the group that the word resembles; else the commands of the
    group, and at most two of other groups that the word resembles."""
    if meant := closest(word, list(entries)):
        return f": did you mean `{group} {meant}`?"
    root, _, subgroup = group.partition(" ")
    own = f"`{group}` has {', '.join(entries)}" if subgroup else ""
    everywhere = list(_paths(COMMANDS.values(), root))
    meant = closest(word, [path.rpartition(" ")[2] for path in everywhere])
    others = [path for path in everywhere if path.rpartition(" ")[2] == meant]
    names = " or ".join(f"`{path}`" for path in others[:_MOST_OTHERS])
    texts = filter(None, (own, names and f"did you mean {names}?"))
    return "".join(f"{mark} {text}" for mark, text in zip(":;", texts, strict=False))


def _paths(groups: Iterable[Mapping[str, Entry]], prefix: str) -> Iterator[str]:
    """All commands and groups, each with the words before it."""
    for entries in groups:
        for name, entry in entries.items():
            yield f"{prefix} {name}"
            yield from _paths([entry.commands], f"{prefix} {name}")


def short_help(entry: Entry) -> str:
    """The line of a command in lists of commands."""
    return entry.help.partition("\n")[0]
