# SPDX-License-Identifier: Apache-2.0
"""`-d`, `-r` and `-c` of commands that take a job file: what they mean in `quick`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import parse_duration, parse_rate
from ldapslam.cli.options import grouped, option
from ldapslam.cli.submission import JobFile


def _checked(parse: Callable[[str], Any]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


_options = grouped(
    "Load of a job with one stream",
    option(
        "-d --duration TIME",
        "Length of the measurement, of any job.",
        parse=_checked(parse_duration),
    ),
    option(
        "-r --rate RATE",
        "Arrivals of the stream, in an open loop.",
        parse=_checked(parse_rate),
    ),
    option(
        "-c --clients N",
        "Clients of a closed loop; connections of an open one.",
        type=click.IntRange(1),
    ),
)


def load_options(command: Any) -> Any:
    """Add the options, as the argument `load`."""

    @functools.wraps(command)
    def merged(
        *args: Any,
        duration: str | None,
        rate: str | None,
        clients: int | None,
        **given: Any,
    ) -> Any:
        return command(*args, load=LoadChanges(duration, rate, clients), **given)

    return _options(merged)


@dataclass(frozen=True)
class LoadChanges:
    """The values of the options."""

    duration: str | None
    rate: str | None
    clients: int | None

    def overrides(self, job: JobFile, overrides: Sequence[str]) -> list[str]:
        """Return the overrides, and those that these options mean after them;
        ConfigError, JobErrors."""
        changes = list(overrides)
        if self.duration is not None:
            changes.append(f"run.duration={self.duration}")
        if self.rate is None and self.clients is None:
            return changes
        load = _load_of_only_stream(job.tree(overrides))
        if self.rate is not None and "clients" in load:
            connections = self.clients or load["clients"]
            open_loop = f"{{rate: {self.rate}, connections: {connections}}}"
            return [*changes, f"streams.0.load={open_loop}"]
        if self.rate is not None:
            changes.append(f"streams.0.load.rate={self.rate}")
        if self.clients is not None:
            key = "clients" if "clients" in load else "connections"
            changes.append(f"streams.0.load.{key}={self.clients}")
        return changes


def _load_of_only_stream(tree: dict[str, Any]) -> dict[str, Any]:
    streams = tree.get("streams")
    streams = streams if isinstance(streams, list) else []
    if len(streams) != 1:
        names = [stream.get("name") for stream in streams if isinstance(stream, dict)]
        stream_name = next(filter(None, names), "NAME")
        raise ConfigError(
            f"-r and -c change a job of one stream, and this has {len(streams)}",
            hint=f"--set streams.{stream_name}.load.rate=500/s changes one of them",
        )
    load = streams[0].get("load") if isinstance(streams[0], dict) else None
    if isinstance(load, dict) and "trace" in load:
        raise ConfigError(
            "-r and -c change a rate or clients, and the load is a trace",
            hint="--set streams.0.load.trace.speed=10x",
        )
    return load if isinstance(load, dict) else {}
