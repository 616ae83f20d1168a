# SPDX-License-Identifier: Apache-2.0
"""The Python job type behind `bulk_load`: times imports into fresh servers.

Each import has a lab of one server in a folder on the file system under test; only the
program, the task or the adds are measured. A note `imports` has CPU, memory and I/O of
the import, the size of the database, and the time until it was on the disk. Folders,
files and programs of a job are used where the agent's operator allows it
(`--allow-import`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any, ClassVar

import psutil

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.python_jobs.job import Client, PythonJob, RunStopped
from ldapslam.base.errors import ConfigError, FleetError, LdapSlamError, TargetError
from ldapslam.base.fault import did_you_mean
from ldapslam.base.units import format_size
from ldapslam.dataset.generate import (
    Generation,
    check_template,
    example_templates,
    generate,
)
from ldapslam.dataset.ldif import entry_count, is_packed
from ldapslam.dataset.load import LoadSettings, load
from ldapslam.dataset.local_tree import template_tree
from ldapslam.dataset.offline import (
    ImportStopped,
    OfflineResult,
    Usage,
    import_task,
    peak_memory_bytes,
)
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.types.built_in import IMPORT_OPERATION, PATH_SETTINGS
from ldapslam.lab.lab import Lab
from ldapslam.lab.lab_folder import LabFolder
from ldapslam.lab.ldif_lines import check_suffix, suffix_of, write_plain
from ldapslam.lab.server import is_plain
from ldapslam.lab.site import Choices

#: Imports leave this part of a disk free: 1/20.
_KEPT_FREE = 20
#: Settings are in the note of each import.
_MAX_SETTINGS_CHARACTERS = 2_000
_SAID_CHARACTERS = 500


class BulkLoad(PythonJob):
    """`options`: those of jobs/types/built_in.py, by their names."""

    operations: ClassVar[tuple[str, ...]] = (IMPORT_OPERATION,)
    connects: ClassVar[bool] = False
    is_load: ClassVar[bool] = False

    def set_up(self, client: Client) -> None:
        self.examine(client.limits)

    def examine(self, limits: AgentLimits) -> str:
        """Find faults on this host before any import; the server's version.
        ConfigError; FleetError where the agent's operator does not allow it."""
        if len(json.dumps(self.options["settings"])) > _MAX_SETTINGS_CHARACTERS:
            raise ConfigError(
                f"settings of over {_MAX_SETTINGS_CHARACTERS:,} characters",
                hint="lines of slapd.conf may be in a file: `include`",
            )
        real = self._allowed(limits)
        for place in self._optional("place"):
            if not (Path(place).is_dir() and os.access(place, os.W_OK)):
                raise ConfigError(
                    f"no import can be made in {place!r}",
                    hint="name a folder that is there, and that the agent may write to",
                )
        with tempfile.TemporaryDirectory(prefix="ldapslam-data-") as folder:
            self._examine_data(Path(folder), real, limits)
            return self._examine_server(real)

    def _examine_data(
        self, folder: Path, real: Mapping[str, str], limits: AgentLimits
    ) -> None:
        for path in self._settings("include"):
            if not Path(real[path]).is_file():
                raise ConfigError(
                    f"{path!r} is no file, and cannot be included",
                    hint="name a file of slapd.conf's lines on the agent's host",
                )
        if "ldif" in self.options:
            ldif = Path(real[self.options["ldif"]])
            _check_file(ldif)
            suffix_of(ldif)
        else:
            wanted = self._generation(folder, limits)
            check_template(wanted)
            check_suffix(template_tree(wanted).below_first()[1], "the template")

    def _examine_server(self, real: Mapping[str, str]) -> str:
        try:
            lab = Lab(
                server=self.options["server"],
                choices=self._choices(real),
                base=next((Path(real[one]) for one in self._optional("place")), None),
            )
            lab.find()
        except LdapSlamError as error:
            # as the job has it
            text = re.sub("^--setting ", "settings: ", str(error))
            raise ConfigError(text, hint=error.hint) from error
        return lab.version()

    def _allowed(self, limits: AgentLimits) -> dict[str, str]:
        """Path in the options -> its real path, which is what is used. FleetError where
        the agent's operator does not allow one."""
        paths = [*self._settings("include"), *self._optional("ldif")]
        programs = [*self._settings("moduleload"), *self._optional("binary")]
        temporary = os.path.realpath(tempfile.gettempdir())
        places = self._optional("place")
        paths += [one for one in places if os.path.realpath(one) != temporary]
        refused = [one for one in paths if not limits.allows_import(one)]
        refused += [one for one in programs if not limits.allows_program(one)]
        # slapd would read such a path in another way than we do
        refused += [one for one in (*paths, *programs) if not is_plain(one)]
        if refused:
            raise FleetError(
                f"this agent's operator does not allow imports to use {refused[0]!r}",
                hint=f"if he agrees: `--allow-import {os.path.realpath(refused[0])}`; "
                "without spaces, quotation marks and backslashes",
            )
        return {one: os.path.realpath(one) for one in (*paths, *programs, *places)}

    def run(self, client: Client) -> None:
        real = self._allowed(client.limits)
        place = self.options.get("place")
        folder = Path(tempfile.gettempdir() if place is None else real[place])
        try:
            self._run_in(folder, real, client)
        except ImportStopped:
            raise RunStopped from None

    def _run_in(self, place: Path, real: Mapping[str, str], client: Client) -> None:
        with contextlib.ExitStack() as stack:
            data_folder = LabFolder(place)
            stack.callback(data_folder.close)
            ldif, entries = self._data(data_folder.path, real, client)
            lab = Lab(
                server=self.options["server"],
                ldif=ldif,
                ldif_entries=entries,
                choices=self._choices(real),
                base=place,
            )
            stack.callback(lab.down)
            lab.prepare()
            version = lab.version()
            if self.options["method"] == "online":
                lab.start(lab.supplier)
            # what was done until now is not the server's to wait for
            client.sleep(0)
            with client.operation(IMPORT_OPERATION):
                result, client_cpu_s = self._import(lab, ldif, data_folder.path, client)
            begun_s = time.monotonic()
            database_bytes = _flush(lab.supplier.folder)
            flush_s = time.monotonic() - begun_s
            found = entries if result.processed is None else result.processed
            _check(result, found, entries)
            quick = self.options["quick"] if result.program == "slapadd" else None
            client.note(
                "imports",
                {
                    "server": version,
                    "backend": lab.backend,
                    "method": result.program,
                    "quick": quick,
                    "settings": self.options["settings"],
                    "entries": found,
                    "ldif_bytes": ldif.stat().st_size,
                    "seconds": round(result.seconds, 6),
                    "flush_seconds": round(flush_s, 6),
                    "database_bytes": database_bytes,
                    "place": str(place),
                    "file_system": _file_system(lab.folder),
                    "client_cpu_s": client_cpu_s,
                    **(asdict(result.usage) if result.usage else {}),
                },
            )

    def _import(
        self, lab: Lab, ldif: Path, folder: Path, client: Client
    ) -> tuple[OfflineResult, float | None]:
        """The result, and the CPU time of this process where it sent the entries."""
        if self.options["method"] == "offline":
            is_quick, is_stopping = self.options["quick"], lambda: client.is_stopping
            return lab.import_offline(
                ldif, is_quick=is_quick, is_stopping=is_stopping
            ), None

        def look(*progress: Any) -> None:
            _stop_if(client)

        server = lab.supplier
        password = server.admin_password_file.read_bytes()
        access = ConnectionSettings(bind=BindSettings(server.admin_dn, password))
        before, cpu_s = _usage_of(server.pid), None
        if self.options["server"] == "389ds":
            result = import_task(ldif, server.uri, access, look)
        else:
            begun_s = time.process_time()
            result = _add_all(ldif, server.uri, access, folder / "rejects", look)
            cpu_s = time.process_time() - begun_s
        return replace(result, usage=_since(before, _usage_of(server.pid))), cpu_s

    def _optional(self, name: str) -> list[str]:
        return [self.options[name]] if name in self.options else []

    def _settings(self, wanted: str) -> list[str]:
        """Values of the settings with this name, however it is written."""
        return [value for name, value in self._pairs() if name.lower() == wanted]

    def _pairs(self) -> list[tuple[str, str]]:
        return [
            (name.strip(), value.strip())
            for name, given in self.options["settings"].items()
            for value in ([given] if isinstance(given, str) else given)
        ]

    def _choices(self, real: Mapping[str, str]) -> Choices:
        binary = self.options.get("binary")
        return Choices(
            binary=None if binary is None else Path(real[binary]),
            backend=self.options.get("backend"),
            options=[
                (name, real[value] if name.lower() in PATH_SETTINGS else value)
                for name, value in self._pairs()
            ],
            # other users of the host may have no right to read the entries; those of
            # 389-DS only the administrator may read anyway
            is_readable=False,
        )

    def _data(
        self, folder: Path, real: Mapping[str, str], client: Client
    ) -> tuple[Path, int]:
        """The LDIF file, on the disk, and its number of entries."""
        path = folder / "data.ldif"
        if "ldif" in self.options:
            path, entries = _given(Path(real[self.options["ldif"]]), path, self.options)
        else:
            entries = self._generate(folder, path, client)
        _check_room(folder, path.stat().st_size)
        return path, entries

    def _generate(self, folder: Path, path: Path, client: Client) -> int:
        wanted = replace(self._generation(folder, client.limits), output=path)

        def look(entries: int, of: int, written_bytes: int) -> None:
            _stop_if(client)
            _check_room(folder, written_bytes)

        entries = generate(wanted, look).entries
        _write_through(path)
        return entries

    def _generation(self, folder: Path, limits: AgentLimits) -> Generation:
        template, text = self.options["template"], self.options.get("template_text")
        wanted = Generation("", entries=self.options.get("entries"))
        if text is not None:
            own = folder / "own.template"
            own.write_text(text, encoding="utf-8")
            may_read = limits.allows_import
            return replace(wanted, template=str(own), may_read=may_read)
        # by its name alone: a file of this name on the host is none of them
        ready = example_templates()
        if template not in ready:
            raise ConfigError(
                f"there is no example template {template!r}",
                hint=did_you_mean(template, ready, "example templates"),
            )
        return replace(wanted, template=str(ready[template]))


def _stop_if(client: Client) -> None:
    if client.is_stopping:
        raise ImportStopped


def _given(ldif: Path, copy: Path, options: Mapping[str, Any]) -> tuple[Path, int]:
    """A file of the host and its number of entries; a copy without what slapadd does
    not know."""
    _check_file(ldif)
    with ldif.open("rb") as lines:
        begins = next((line for line in lines if line.strip()), b"")
    entries = entry_count(ldif)
    if begins.startswith((b"version:", b"#")) and options["server"] == "slapd":
        write_plain(ldif, copy)
        _write_through(copy)
        return copy, entries
    return ldif, entries


def _check_file(ldif: Path) -> None:
    if is_packed(ldif):
        raise ConfigError(
            f"{str(ldif)!r} is packed: what is timed is an import, not `gunzip`",
            hint="unpack it beforehand",
        )


def _check_room(folder: Path, ldif_bytes: int) -> None:
    """FleetError before the database of this much LDIF would fill the disk."""
    disk = shutil.disk_usage(folder)
    if disk.free < ldif_bytes + disk.total // _KEPT_FREE:
        raise FleetError(
            f"too little room in {str(folder.parent)!r}: {format_size(disk.free)} are "
            f"left, and the LDIF has {format_size(ldif_bytes)}",
            hint="fewer entries, or another place",
        )


def _write_through(path: Path) -> None:
    """Else the import would wait for the page cache to be written."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _check(result: OfflineResult, found: int, entries: int) -> None:
    """TargetError when the import is not what it was to be: it measures nothing."""
    if result.is_whole and found == entries:
        return
    said = " | ".join(result.output)[-_SAID_CHARACTERS:] or "it said nothing"
    how = "failed"
    if result.is_success:
        how = f"imported {found - result.skipped:,} of {entries:,} entries"
    raise TargetError(
        f"{result.program} {how}: {said}",
        hint="`ldapslam lab up --ldif` with the same file and settings shows more",
    )


def _add_all(
    ldif: Path, uri: str, access: ConnectionSettings, rejects: Path, look: Any
) -> OfflineResult:
    begun_s = time.monotonic()
    done = load(ldif, uri, access, rejects, LoadSettings(), look)
    reason = done.stopped_by
    return OfflineResult(
        "adds",
        time.monotonic() - begun_s,
        reason is None,
        () if reason is None else (reason,),
        processed=done.added,
    )


def _usage_of(pid: int) -> Usage:
    """What a server's process has taken since its start."""
    process = psutil.Process(pid)
    times, io = process.cpu_times(), process.io_counters()
    peak = peak_memory_bytes(pid)
    return Usage(times.user, times.system, peak, io.read_bytes, io.write_bytes)


def _since(before: Usage, now: Usage) -> Usage:
    spent = (new - old for old, new in zip(astuple(before), astuple(now), strict=True))
    return replace(Usage(*spent), peak_memory_bytes=now.peak_memory_bytes)


def _flush(folder: Path) -> int:
    """Write all files of the server to the disk; the bytes that they take there."""
    size = 0
    for path in folder.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        # a server that runs may remove a log, or a lock
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            os.fsync(file.fileno())
            size += os.fstat(file.fileno()).st_blocks * 512
    return size


def _file_system(folder: Path) -> str:
    """Its kind, as the kernel mounted it."""
    real = Path(os.path.realpath(folder))
    holding = [
        one
        for one in psutil.disk_partitions(all=True)
        if real.is_relative_to(one.mountpoint)
    ]
    # of those on one another the last is on top
    holding.sort(key=lambda one: len(one.mountpoint))
    return holding[-1].fstype if holding else ""
