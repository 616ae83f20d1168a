# SPDX-License-Identifier: Apache-2.0
"""The class of all commands, and of groups: the options that each of them has.

`-o`, `--json`, `-q` and `-v` may stand before a command, after it, and after its group.
"""

from __future__ import annotations

import functools
from typing import Any

import click

from ldapslam.cli.console import Invocation
from ldapslam.cli.options import heading_of

COMMON_OPTIONS = "Common options"
_OPTIONS, _OTHER_OPTIONS = "Options", "Other options"


def _common(*names: str, field: str, **settings: Any) -> click.Option:
    """An option of all commands; the invocation's `field` gets its value, a count adds
    to it."""

    def note(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            known = vars(context.ensure_object(Invocation))
            known[field] = known[field] + value if settings.get("count") else value

    return click.Option(names, expose_value=False, callback=note, **settings)


_COMMON = [
    _common(
        *("-o", "--out"),
        field="output",
        metavar="FILE",
        help="Write the output to FILE instead of stdout; - is stdout.",
    ),
    _common(
        "--json",
        field="json",
        is_flag=True,
        is_eager=True,  # errors of other options are JSON too
        help="Print the result as one JSON document.",
    ),
    _common(
        *("-q", "--quiet"),
        field="quiet",
        is_flag=True,
        help="Print results and errors only, no progress and no notes.",
    ),
    _common(
        *("-v", "--verbose"),
        field="verbosity",
        count=True,
        help="Log more; twice for everything.",
    ),
]


class CommonOptions(click.Command):
    """A command or group with the common options, and headings in its help."""

    def __init__(
        self, name: str | None, params: list[click.Parameter], **settings: Any
    ) -> None:
        own_names = {name for parameter in params for name in parameter.opts}
        common = [one for one in _COMMON if not own_names & {*one.opts}]
        super().__init__(name, params=[*params, *common], **settings)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(self._heading(ctx, parameter), []).append(record)
        common = groups.pop(COMMON_OPTIONS)
        others = groups.pop(_OTHER_OPTIONS, [])
        if others:
            groups[_OTHER_OPTIONS if groups else _OPTIONS] = others
        for heading, records in (*groups.items(), (COMMON_OPTIONS, common)):
            with formatter.section(heading):
                formatter.write_dl(records)

    def _heading(self, ctx: click.Context, option: click.Option) -> str:
        if option in _COMMON or option is self.get_help_option(ctx):
            return COMMON_OPTIONS
        return heading_of(option) or _OTHER_OPTIONS


class Command(CommonOptions):
    """A command, which is not a group."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give -o that stands before the command to its own option, if it has one."""
        invocation = ctx.ensure_object(Invocation)
        has_own = not any(_COMMON[0] is one for one in self.params)
        if invocation.output is not None and has_own:
            args = ["-o", invocation.output, *args]
            invocation.output = None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.ensure_object(Invocation).begin()
        return super().invoke(ctx)


command = functools.partial(click.command, cls=Command)


def is_common(option: click.Parameter) -> bool:
    """Whether all commands have the option."""
    return option in _COMMON
