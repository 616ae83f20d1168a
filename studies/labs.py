# SPDX-License-Identifier: Apache-2.0
"""The lab of a study: throw-away servers in place of the targets of its jobs.

There is one lab at a time. It stays up as long as the points want the same lab, unless
every run is to begin with new servers; it ends with the study, also when that is
killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import parse_cpus
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.connection import Bind, Tls
from ldapslam.jobs.load import variable_values, variables_of, written_in
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import connection_settings
from ldapslam.jobs.reading.variables import KEY as VARIABLES
from ldapslam.jobs.reading.variables import override_of
from ldapslam.lab import Choices, Lab, Server
from ldapslam.studies.points import Point
from ldapslam.studies.study_file import StudyLab

#: The variable of jobs that says how many people there are; and a lab's key.
_USERS, _ENTRIES = "users", "entries"
#: How long replicas may take to have what the run before has written.
_IN_SYNC_S = 60.0


@dataclass(frozen=True)
class Servers:
    """Whom a run is to reach."""

    #: Target role -> URIs.
    targets: Mapping[str, Sequence[str]]
    #: How to change their settings; None where nobody may.
    access: ConnectionSettings | None
    #: Overrides of the job for these servers.
    overrides: tuple[str, ...] = ()
    #: What a lab's servers were made of, for the manifest of the run.
    made_of: Mapping[str, str] = field(default_factory=dict)

    def of_role(self, role: str) -> Sequence[str]:
        """The URIs of a target role; ConfigError."""
        if role not in self.targets:
            raise ConfigError(
                f"the job has no target role {role!r}",
                hint=f"it has {', '.join(self.targets)}",
            )
        return self.targets[role]


def with_users(point: Point, path: Path, section: StudyLab) -> Point:
    """Return the point with a lab of one person for each user of its job; `path` is the
    job's file. Where the lab's entries are given, the job's users are as many, unless
    the point gives them, too. JobErrors."""
    if _USERS not in variables_of(path):
        return point
    given = any(one.startswith(f"{VARIABLES}.{_USERS}=") for one in point.overrides)
    if _ENTRIES in point.lab or _ENTRIES in section.model_fields_set:
        entries = str(point.lab.get(_ENTRIES, section.entries))
        # what is so already would be a difference from runs without it
        if given or str(written_in(path, VARIABLES)[_USERS]) == entries:
            return point
        overrides = override_of(_USERS, entries), *point.overrides
        return replace(point, overrides=overrides)
    users = variable_values(path, point.overrides)[_USERS]
    if not isinstance(users, int) or users < 1:
        return point
    return replace(point, lab={**point.lab, _ENTRIES: users})


def check_lab(section: StudyLab, point: Point, job: Job) -> None:
    """See that the point's lab has its programs, and the servers that the job wants;
    nothing is started. ConfigError, LabError."""
    lab = _lab_of(_changed(section, point))
    for role in job.targets:
        _name_of(role, lab.topology.roles())
    lab.find()


class Labs:
    """See the module."""

    def __init__(
        self, section: StudyLab, points: Sequence[Point], say: Callable[[str], None]
    ) -> None:
        """Nothing is started. ConfigError when a point makes the lab what it cannot
        be."""
        for one in points:
            _changed(section, one)
        self._section = section
        self._say = say
        self._lab: Lab | None = None
        #: What the lab that is up was made of.
        self._made_of: StudyLab | None = None

    def servers(self, point: Point, job: Job) -> Servers:
        """Those of a run, up and in sync."""
        wanted = _changed(self._section, point)
        if self._lab is None or wanted != self._made_of or wanted.every_run:
            self.close()
            self._lab, self._made_of = self._up(wanted), wanted
        else:
            self._lab.wait_in_sync(_IN_SYNC_S)
        servers = _servers(self._lab, job)
        of_program = {"version": self._lab.version(), "backend": self._lab.backend}
        made_of = {**planned_facts(self._section, point), **of_program}
        return replace(servers, made_of=made_of)

    def restart(self) -> None:
        """Restart the servers that are up; their data stay."""
        if self._lab is not None:
            for server in self._lab.servers:
                self._lab.stop(server)
                self._lab.start(server)

    def close(self) -> None:
        """End the servers, and remove their data."""
        if self._lab is not None:
            self._lab.down()
        self._lab = None

    def _up(self, wanted: StudyLab) -> Lab:
        self._say(f"bringing up a lab: {wanted.server}, {wanted.entries:,} people")
        lab = _lab_of(wanted)
        lab.up()
        return lab


def _changed(section: StudyLab, point: Point) -> StudyLab:
    """The point's lab; `settings.NAME` is one of its settings."""
    content = section.model_dump()
    for key, value in point.lab.items():
        first, _, name = key.partition(".")
        if first == "settings" and name:
            content["settings"] = {**content["settings"], name: value}
        else:
            content[key] = value
    try:
        return StudyLab.model_validate(content)
    except ValidationError as error:
        what = "; ".join(str(one["msg"]) for one in error.errors())
        raise ConfigError(
            f"{point.label}: its lab cannot be made: {what}",
            hint="`ldapslam describe study` has the keys of a lab",
        ) from error


def _lab_of(section: StudyLab) -> Lab:
    """A lab that is not up yet."""
    options = [
        (name, _text(one))
        for name, value in section.settings.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    return Lab(
        server=section.server,
        replicas=section.replicas,
        entries=section.entries,
        choices=Choices(
            binary=None if section.binary is None else Path(section.binary),
            options=options,
            cpus=None if section.cpus is None else parse_cpus(section.cpus),
        ),
        base=None if section.folder is None else Path(section.folder).absolute(),
    )


def planned_facts(section: StudyLab, point: Point) -> dict[str, str]:
    """What the point's lab will be made of, without where it is, and what its program
    says."""
    section = _changed(section, point)
    settings = {
        f"settings · {name}": json.dumps(value)
        if isinstance(value, list)
        else _text(value)
        for name, value in section.settings.items()
    }
    return {
        "server": section.server,
        "entries": str(section.entries),
        "replicas": str(section.replicas),
        **({} if section.cpus is None else {"cpus": str(section.cpus)}),
        **settings,
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _servers(lab: Lab, job: Job) -> Servers:
    password = {"file": str(lab.admin_password_file)}
    bind = {"dn": lab.admin_dn, "password": password}
    targets = {role: [_uri(lab, role, uris)] for role, uris in job.targets.items()}
    overrides = [f"targets.{role}={json.dumps(uris)}" for role, uris in targets.items()]
    overrides += [f"{place}={json.dumps(bind)}" for place in _binds(job)]
    if job.tls != Tls() or any(uri.startswith("ldaps:") for [uri] in targets.values()):
        overrides.append(f"tls.ca_file={json.dumps(str(lab.ca_file))}")
    trusted = Tls.model_validate({"ca_file": str(lab.ca_file)})
    access = connection_settings(job, trusted, Bind.model_validate(bind)).resolved()
    return Servers(targets, access, tuple(overrides))


def _binds(job: Job) -> Iterator[str]:
    """Where the job says who binds."""
    if job.bind is not None:
        yield "bind"
    binds = {
        "monitors": [one.bind for one in job.monitors],
        "streams": [one.bind for one in job.streams],
    }
    for name, given in binds.items():
        for index, bind in enumerate(given):
            if bind is not None:
                yield f"{name}.{index}.bind"


def _uri(lab: Lab, role: str, uris: Sequence[str]) -> str:
    server = _server(lab, role)
    return server.ldaps_uri if uris[0].startswith("ldaps:") else server.uri


def _server(lab: Lab, role: str) -> Server:
    by_name = {one.name: one for one in lab.servers}
    return by_name[_name_of(role, list(by_name))]


def _name_of(role: str, names: Collection[str]) -> str:
    """Return the lab's server for a target role; `names` has the suppliers first."""
    replicas = [one for one in names if one.startswith("replica")]
    if role in names:
        return role
    if role == "replica" and replicas:
        return replicas[0]
    if role.startswith("replica"):
        raise ConfigError(
            f"the lab has no server for the target role {role!r}",
            hint=f"give the lab more replicas than {len(replicas)}",
        )
    return next(iter(names))
