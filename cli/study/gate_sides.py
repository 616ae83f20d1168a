# SPDX-License-Identifier: Apache-2.0
"""The two sides of a gate, as the command line describes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.uri import check_uri
from ldapslam.cli.console import say
from ldapslam.cli.options import parse_pair
from ldapslam.cli.submission import JobFile
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading.variables import override_of
from ldapslam.studies.labs import with_users
from ldapslam.studies.points import Point
from ldapslam.studies.study_file import StudyLab

_LAB = "lab."
_BINARY = "binary"
#: Where a server's program is below the folder that it is installed in.
_ROOTS = ("", "usr/", "usr/local/", "opt/openldap/", "opt/dirsrv/")
_PROGRAMS = {
    "slapd": ("sbin/slapd", "libexec/slapd", "lib/slapd", "slapd"),
    "389ds": ("sbin/ns-slapd", "ns-slapd"),
}


@dataclass(frozen=True)
class Side:
    """The old or the new server."""

    job: Job
    #: Its job's file and changes; its lab is in `lab` of the point.
    point: Point
    #: None: the servers are there already.
    lab: StudyLab | None

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two sides that are the same."""
        return self.job.canonical_hash(), self.lab, dict(self.point.lab)


def side_of(
    name: str,
    changes: Sequence[str],
    source: JobFile,
    overrides: Sequence[str],
    lab: StudyLab | None,
) -> Side:
    """The side that CHANGEs of the command line describe; ConfigError, JobErrors."""
    given, of_lab = list(overrides), dict[str, str]()
    for change in changes:
        key, equals, value = change.partition("=")
        if "://" in key or not equals:
            if "://" in change:
                given.append(_target(name, change, source.load(overrides)))
            else:
                of_lab[_BINARY] = str(_program(name, Path(change), lab))
        elif key.startswith(_LAB):
            of_lab[key.removeprefix(_LAB)] = value
        elif "." in key:
            given.append(change)
        else:
            given.append(override_of(*parse_pair(change)))
    if of_lab and lab is None:
        raise ConfigError(
            f"--{name}: {next(iter(of_lab))} is of a lab's server, and there is no lab",
            hint="add --lab slapd or --lab 389ds",
        )
    point = Point({"side": name}, tuple(given), job=source.name, lab=of_lab)
    if lab is not None:
        point = with_users(point, source.path, lab)
        if point.lab != of_lab:
            entries = point.lab["entries"]
            say(f"{name}: the lab has {entries:,} people, as many as the job's users")
    return Side(source.load(point.overrides), point, lab)


def _target(name: str, uri: str, job: Job) -> str:
    try:
        check_uri(uri)
    except Fault as fault:
        raise ConfigError(f"--{name}: {fault}", hint=fault.hint) from fault
    if len(job.targets) > 1:
        roles = ", ".join(f"targets.{role}=…" for role in job.targets)
        raise ConfigError(
            f"--{name}: the job has {len(job.targets)} targets, and {uri} is one",
            hint=f"say which: {roles}",
        )
    return f"targets.{next(iter(job.targets))}={uri}"


def _program(name: str, path: Path, lab: StudyLab | None) -> Path:
    if path.is_file():
        if not os.access(path, os.X_OK):
            raise ConfigError(
                f"--{name}: {str(path)!r} is no program",
                hint="of a configuration, load a server that has it: "
                "docs/how-to/gate-configurations.md",
            )
        return path.absolute()
    kinds = [lab.server] if lab else list(_PROGRAMS)
    places = [
        path / root / program
        for root in _ROOTS
        for kind in kinds
        for program in _PROGRAMS[kind]
    ]
    for place in places:
        if place.is_file():
            return place.absolute()
    if not path.exists():
        raise ConfigError(
            f"--{name}: there is no file or folder {str(path)!r}",
            hint="a variable or a field of the job is NAME=VALUE, a server ldap://HOST",
        )
    raise ConfigError(
        f"--{name}: no {' or '.join(kinds)} below {str(path)!r}",
        hint="name the program itself",
    )
