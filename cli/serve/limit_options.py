# SPDX-License-Identifier: Apache-2.0
"""The options by which the operator of an agent limits what it may be used for.

They are the agent's, not the coordinator's: whoever may submit jobs cannot change them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ldapslam.base import units
from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.cli.console import add_options

if TYPE_CHECKING:
    from ldapslam.agent.admission.limits import AgentLimits

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _quantity(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    """A click callback that reads a value with its unit."""

    def read(_: click.Context, option: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        try:
            return parse(value)
        except Fault as error:
            name = (option.name or "").replace("_", "-")
            raise ConfigError(f"--{name}: {error}", hint=error.hint) from error

    return read


def _cpu_share(value: str) -> float:
    share = units.parse_ratio(value)
    if share == 0:
        raise Fault("expected more than 0%, got '0%'", "100% is every CPU of the host")
    return share


_OPTIONS = (
    click.option(
        "--allow-target",
        "allow_target",
        metavar="RULE",
        multiple=True,
        help="A server that may be loaded: an address or network (10.1.0.0/16), a host "
        "name, either with :PORT; ldapi or ldapi:PATH; loopback; any. Repeatable. "
        "When left out: loopback and ldapi.",
    ),
    click.option(
        "--allow-log",
        "allow_log",
        metavar="PATH",
        multiple=True,
        help="A directory's log that monitors of a job may read, by its absolute path "
        "without symbolic links; any. Repeatable. When left out: none.",
    ),
    click.option(
        "--allow-import",
        "allow_import",
        metavar="PATH",
        multiple=True,
        help="What jobs of type bulk_load may use: a folder for databases and LDIF "
        "files, or a program that they may run; any. Repeatable. When left out: the "
        "folder for temporary files, and no programs but those installed.",
    ),
    click.option(
        "--require-marker",
        metavar="RDN",
        help="Load a directory only if this entry (cn=ldapslam-allowed) is below each "
        "naming context that the job touches.",
    ),
    click.option(
        "--restricted",
        is_flag=True,
        help="Take only jobs that name this agent.",
    ),
    click.option(
        "--max-runs",
        metavar="N",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Runs at a time; each may use an equal part of the connections and the "
        "rate below.",
    ),
    click.option(
        "--max-connections",
        metavar="N",
        type=click.IntRange(min=1),
        help="Most connections at a time.",
    ),
    click.option(
        "--max-rate",
        metavar="RATE",
        callback=_quantity(lambda value: units.parse_rate(value).per_s),
        help="Most requests that may be due, such as 5000/s; refuses loads whose rate "
        "nothing bounds.",
    ),
    click.option(
        "--max-duration",
        metavar="DURATION",
        callback=_quantity(units.parse_duration),
        help="Longest run, such as 12h.",
    ),
    click.option(
        "--max-cpu",
        metavar="SHARE",
        callback=_quantity(_cpu_share),
        help="Of this host's CPUs, such as 50%: engines run on so many of them, and on "
        "no others; whole ones, at least one.",
    ),
    click.option(
        "--spool-quota",
        metavar="SIZE",
        callback=_quantity(units.parse_size),
        help="Most that reports which wait to be delivered may take, such as 2GiB.",
    ),
)


def limit_options(command: _Command) -> _Command:
    """The options; the command gets `limits`, `max_runs` and `restricted`."""

    @functools.wraps(command)
    def with_limits(
        *args: Any,
        allow_target: tuple[str, ...],
        allow_log: tuple[str, ...],
        allow_import: tuple[str, ...],
        require_marker: str | None,
        max_connections: int | None,
        max_rate: float | None,
        max_duration: int | None,
        max_cpu: float | None,
        spool_quota: int | None,
        **others: Any,
    ) -> Any:
        from ldapslam.agent.admission.limits import AgentLimits
        from ldapslam.agent.admission.target_rules import parse_rules
        from ldapslam.directory.marker import parse_marker

        limits: AgentLimits = AgentLimits(
            targets=parse_rules(allow_target),
            max_connections=max_connections,
            max_rate_per_s=max_rate,
            max_duration_ns=max_duration,
            max_cpu_ratio=max_cpu,
            marker_rdn=None if require_marker is None else parse_marker(require_marker),
            spool_quota_bytes=spool_quota,
            logs=allow_log,
            imports=allow_import,
        )
        return command(*args, limits=limits, **others)

    return add_options(*_OPTIONS)(with_limits)  # type: ignore[return-value]
