# SPDX-License-Identifier: Apache-2.0
"""Imports an LDIF file past LDAP: slapadd, ldif2db, or an import task of a 389-DS.

What is timed is the program alone. A database that a server has open is refused: two
processes that write into it at once damage it. Which database is meant is read from
slapd.conf(5) with what it includes, or from a folder of slapd-config(5).

A 389-DS that runs imports by a task: it reads the file itself, from a path of its own
host, and replaces all entries of the back end of their suffix. It is closed meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import select
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import ldap

from ldapslam.base.errors import ConfigError, TargetError, TargetUnreachable
from ldapslam.dataset.ldif import is_packed, ldif_entries, open_ldif, records
from ldapslam.dataset.local_tree import first_dn
from ldapslam.directory.access import connect, error_text, result_code_of
from ldapslam.directory.control_connection import Entry, text_of
from ldapslam.directory.entry_digest import Attributes, is_below, normalised_dn
from ldapslam.jobs.connection_settings import ConnectionSettings

_INCLUDES_DEEP = 8


@dataclass(frozen=True, slots=True)
class SlapdDatabase:
    """One database of a slapd."""

    #: `mdb`, `hdb` and so on.
    backend: str
    suffixes: tuple[str, ...]
    #: Where its files are, for back ends that have some.
    folder: Path | None
    #: Where slapd writes its process id while it runs.
    pid_file: Path | None

    def user_pid(self) -> int | None:
        """A process that has the database open, or None.

        LMDB has a lock on the first octet of lock.mdb as long as an environment is open
        (mdb_env_excl_lock, mdb_env_share_locks); for other back ends it is the process
        of the file of its id, if that runs.
        """
        if self.folder is not None:
            pid = _lock_holder(self.folder / "lock.mdb")
            if pid is not None:
                return pid
        if self.pid_file is not None:
            with contextlib.suppress(OSError):
                return running_slapd(self.pid_file.read_text().strip())
        return None


def find_database(config: Path, dn: str) -> SlapdDatabase:
    """The database that an entry of this DN would be in. ConfigError: there is none."""
    databases = list(_databases(config))
    for database in databases:
        if any(is_below(dn, suffix) for suffix in database.suffixes):
            return database
    suffixes = [suffix for one in databases for suffix in one.suffixes]
    raise ConfigError(
        f"no database of {str(config)!r} is for {dn!r}; their suffixes are "
        f"{', '.join(suffixes) or 'none'}",
        hint="name the configuration of the slapd that is to have the entries: "
        "slapd.conf, or the folder slapd.d",
    )


def _databases(config: Path) -> Iterator[SlapdDatabase]:
    directives = _folder(config) if config.is_dir() else _file(config, _INCLUDES_DEEP)
    pid_file: Path | None = None
    backend, folder = "", None
    suffixes: list[str] = []
    for keyword, value in directives:
        if keyword == "pidfile":
            pid_file = Path(value)
        elif keyword == "database":
            if suffixes:
                yield SlapdDatabase(backend, tuple(suffixes), folder, pid_file)
            backend, suffixes, folder = value, [], None
        elif keyword == "suffix" and backend:
            suffixes.append(value)
        elif keyword == "directory" and backend:
            folder = Path(value)
    if suffixes:
        yield SlapdDatabase(backend, tuple(suffixes), folder, pid_file)


def _file(path: Path, depth: int) -> Iterator[tuple[str, str]]:
    """Keyword and first argument of each directive of slapd.conf."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    for line in re.sub(r"\n[ \t]+", " ", text).splitlines():
        match = re.match(r'(\w+)\s+(?:"([^"]*)"|(\S+))', line)
        if match is None:
            continue
        keyword, value = match[1].lower(), match[2] or match[3] or ""
        if keyword == "include" and depth:
            yield from _file(Path(value), depth - 1)
        else:
            yield keyword, value


def _folder(path: Path) -> Iterator[tuple[str, str]]:
    """The same of slapd.d."""
    inner = path / "cn=config"
    files = [path / "cn=config.ldif", *sorted(inner.glob("olcDatabase=*.ldif"))]
    if not files[0].exists():
        raise ConfigError(
            f"{str(path)!r} is no folder of slapd-config: it has no cn=config.ldif"
        )
    keywords = {"olcsuffix": "suffix", "olcdbdirectory": "directory"}
    for file in files:
        with open_ldif(file) as stream:
            for record in records(stream, str(file)):
                found = _lowered(record.attributes)
                if "olcpidfile" in found:
                    yield "pidfile", os.fsdecode(found["olcpidfile"][0])
                if "olcdatabase" in found:
                    name = found["olcdatabase"][0].decode()
                    yield "database", name.partition("}")[2] or name
                for attribute, keyword in keywords.items():
                    for value in found.get(attribute, ()):
                        yield keyword, value.decode(errors="surrogateescape")


def _lock_holder(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            # struct flock: l_type, l_whence, l_start, l_len, l_pid
            asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            found = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None  # missing or not readable: slapadd reports it
    return found[4] if found[0] != fcntl.F_UNLCK else None


def running_slapd(text: str) -> int | None:
    """The process id that a file has, if that is a slapd's or ns-slapd's."""
    try:
        name = Path(f"/proc/{int(text)}/comm").read_text()
    except (OSError, ValueError):
        return None
    return int(text) if "slapd" in name else None


_PATH = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"]
)
#: An agent's processes ignore these, and what they start would too.
_DEFAULT_SIGNALS = ("env", "--default-signal=HUP,INT,TERM")
_OUTPUT_LINES: Final = 20
_END_S = 5.0
_LOOK_MS = 20
#: Of ru_inblock and ru_oublock, getrusage(2).
_BLOCK_BYTES = 512
#: slapadd's word for each entry that it leaves out.
_REFUSED = r'^slapadd: (?:could not (?:add|parse) entry|dn="[^"]*" \(line=\d+\): \()'


#: Asked while a program runs; True ends it.
IsStopping = Callable[[], bool]


class ImportStopped(Exception):
    """The import was ended before its end, because it was asked to."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a program took, as the kernel counts it."""

    cpu_user_s: float
    cpu_system_s: float
    #: Most resident memory, of files that are mapped included, up to 20 ms before its
    #: end. (That of getrusage is never less than its parent's at the fork.)
    peak_memory_bytes: int
    #: From and to disks; what is written later, out of the page cache, is included.
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class OfflineResult:
    """What the program came to."""

    #: slapadd, ldif2db or import-task.
    program: str
    seconds: float
    is_success: bool
    #: The last lines of what it said, of errors and warnings where it marks them.
    output: tuple[str, ...]
    #: Entries that it says it put in; None where it does not say.
    processed: int | None = None
    #: Entries that it left out.
    skipped: int = 0
    #: None of a task of the server's.
    usage: Usage | None = None

    @property
    def is_whole(self) -> bool:
        return self.is_success and not self.skipped


def slapadd(
    ldif: Path,
    config: Path,
    *,
    is_quick: bool = False,
    continue_on_error: bool = False,
    program: Sequence[str] = (),
    is_stopping: IsStopping = lambda: False,
) -> OfflineResult:
    """Add the entries to the database of their suffix; others in it stay. `is_quick`:
    without checks and transactions. ConfigError: program or database not found.
    TargetError: a slapd has the database open. ImportStopped."""
    database = find_database(config, first_dn(ldif))
    pid = database.user_pid()
    if pid is not None:
        raise TargetError(
            f"the database of {database.suffixes[0]!r} is open in process {pid}",
            hint="stop that slapd first, or load over LDAP: give its URI instead of "
            "--offline",
        )
    config_option = "-F" if config.is_dir() else "-f"
    argv = [*(program or [_program("slapadd", "slapd")]), config_option, str(config)]
    argv += ["-b", database.suffixes[0]]
    argv += ["-q"] if is_quick else []
    argv += ["-c"] if continue_on_error else []
    # without -l it reads its standard input, where a packed file comes unpacked
    is_piped = is_packed(ldif)
    argv += [] if is_piped else ["-l", str(ldif)]
    return imported("slapadd", *_run(argv, ldif if is_piped else None, is_stopping))


def ldif2db(
    ldif: Path,
    config: Path,
    *,
    program: Sequence[str] = (),
    is_stopping: IsStopping = lambda: False,
) -> OfflineResult:
    """Replace all entries of the back end of the file's suffix. `config` is the
    instance's folder with dse.ldif. Errors as of slapadd."""
    if is_packed(ldif):
        raise ConfigError(f"ldif2db reads no packed file such as {str(ldif)!r}")
    settings = _dse(config)
    pid = _ds389_pid(settings)
    if pid is not None:
        raise TargetError(
            f"the instance of {str(config)!r} runs as process {pid}",
            hint="stop it first, or have it import by itself: --offline import-task",
        )
    words = program or [_program("ns-slapd", "389-ds-base")]
    argv = [*words, "ldif2db", "-D", str(config)]
    backend = backend_of(settings.values(), first_dn(ldif), str(config))
    argv += ["-n", backend, "-i", str(ldif.resolve())]
    # the outcome of entries is in the server's log alone
    logs = settings.get(b"cn=config", {}).get("nsslapd-errorlog", ())
    paths = map(Path, map(os.fsdecode, logs))
    begins = [(one, one.stat().st_size if one.exists() else 0) for one in paths]
    seconds, status, text, usage = _run(argv, None, is_stopping)
    text = "\n".join([text, *(_from(path, begin) for path, begin in begins)])
    return imported("ldif2db", seconds, status, text, usage)


def imported(
    program: str, seconds: float, status: int, text: str, usage: Usage | None = None
) -> OfflineResult:
    """The result that a program's end and its words say."""
    # ns-slapd's status is not 0 when entries were left out, slapadd's is
    said = re.findall(r"complete\.  Processed (\d+) entries(.*)", text)
    processed, rest = said[-1] if said else (None, "")
    skipped = re.findall(r"(\d+) (?:bad )?(?:entries )?were skipped", rest)
    refused = re.findall(_REFUSED, text, re.M)
    lines = text.splitlines()
    marked = [line for line in lines if re.search(" - (?:ERR|WARN) - ", line)]
    return OfflineResult(
        program,
        seconds,
        status == 0 or bool(said),
        tuple((marked or lines)[-_OUTPUT_LINES:]),
        int(processed) if processed else None,
        sum(map(int, skipped)) + len(refused),
        usage,
    )


_Ended = tuple[float, int, str, Usage]


def _run(argv: Sequence[str], piped: Path | None, is_stopping: IsStopping) -> _Ended:
    """Run a program to its end: seconds, exit status, what it said, usage."""
    with tempfile.TemporaryFile() as output:
        begun_s = time.monotonic()
        process = subprocess.Popen(
            [*_with_parent(), *_DEFAULT_SIGNALS, *argv],
            stdin=subprocess.DEVNULL if piped is None else subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if piped is not None and process.stdin is not None:
                _pipe(piped, process.stdin)
            usage = _wait(process, is_stopping)
        finally:
            _end(process)
        seconds = time.monotonic() - begun_s
        output.seek(0)
        text = output.read().decode(errors="replace")
        return seconds, process.returncode, text, usage


def _wait(process: subprocess.Popen[bytes], is_stopping: IsStopping) -> Usage:
    """Until the program has ended, which is noticed at once."""
    descriptor = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        peak_bytes = peak_memory_bytes(process.pid)
        while not poll.poll(_LOOK_MS):
            peak_bytes = max(peak_bytes, peak_memory_bytes(process.pid))
            if is_stopping():
                raise ImportStopped
    finally:
        os.close(descriptor)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Usage(
        used.ru_utime,
        used.ru_stime,
        peak_bytes,
        used.ru_inblock * _BLOCK_BYTES,
        used.ru_oublock * _BLOCK_BYTES,
    )


def peak_memory_bytes(pid: int) -> int:
    """Most resident memory of a process so far; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.M)
    return int(found[1]) * 1024 if found else 0


def _with_parent() -> list[str]:
    """Words of a command by which the kernel kills a program when its parent ends."""
    setpriv = shutil.which("setpriv", path=_PATH)
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]


def _from(path: Path, begin: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")
    except OSError:
        return ""  # it was never written, or is not ours to read


def _pipe(ldif: Path, sink: IO[bytes]) -> None:
    # a program that ends early says itself why
    with contextlib.suppress(BrokenPipeError), sink, open_ldif(ldif) as stream:
        shutil.copyfileobj(stream, sink, 1 << 20)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _program(name: str, package: str) -> str:
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise ConfigError(
            f"{name} cannot be found on this host", hint=f"`apt-get install {package}`"
        )
    return path


# -- 389-DS ----------------------------------------------------------------------------


def _dse(config: Path) -> dict[bytes, Entry]:
    return {
        normalised_dn(dn): _lowered(attributes)
        for dn, attributes in ldif_entries(config / "dse.ldif")
    }


def _ds389_pid(settings: Mapping[bytes, Entry]) -> int | None:
    """A server has a file with its process id as name while it runs."""
    folders = settings.get(b"cn=config", {}).get("nsslapd-lockdir", ())
    for folder in folders:
        for lock in Path(os.fsdecode(folder), "server").glob("[0-9]*"):
            if (pid := running_slapd(lock.name)) is not None:
                return pid
    return None


def backend_of(backends: Iterable[Entry], dn: str, where: str) -> str:
    """Name of the back end that has `dn`, the first entry of an import, as its suffix.
    `backends` are entries of the class nsBackendInstance, their attributes in lower
    case. ConfigError: no back end has this suffix, or the suffix would be missing: an
    import replaces all entries, and 389-DS leaves out entries without their suffix."""
    found = {
        suffix.decode(errors="replace"): entry["cn"][0].decode()
        for entry in backends
        for suffix in entry.get("nsslapd-suffix", ())
    }
    inside = [suffix for suffix in found if is_below(dn, suffix)]
    if not inside:
        raise ConfigError(
            f"no back end of {where!r} is for {dn!r}; their suffixes are "
            f"{', '.join(sorted(found)) or 'none'}"
        )
    suffix = max(inside, key=len)
    if normalised_dn(suffix) != normalised_dn(dn):
        raise ConfigError(
            f"the first entry is {dn!r}, not the suffix {suffix!r}: the import would "
            f"leave the back end {found[suffix]!r} of {where!r} empty",
            hint="put the suffix's entry first, or load over LDAP, which keeps what is "
            "there",
        )
    return found[suffix]


_TASKS = "cn=import,cn=tasks,cn=config"
_BACKENDS = "cn=ldbm database,cn=plugins,cn=config"
_INSTANCES = "(objectClass=nsBackendInstance)"
_POLL_S = 0.05


def import_task(
    ldif: Path,
    uri: str,
    access: ConnectionSettings,
    tell: Callable[[str], None] = lambda status: None,
) -> OfflineResult:
    """Have the server import the file, and wait. `tell` gets the last line of its log.
    TargetError: it cannot be used, or starts no such task."""
    if is_packed(ldif):
        raise ConfigError(f"a 389-DS reads no packed file such as {str(ldif)!r}")
    dn = f"cn=ldapslam-{secrets.token_hex(6)},{_TASKS}"
    connection = connect(uri, access)
    try:
        found = connection.search_s(
            _BACKENDS, ldap.SCOPE_ONELEVEL, _INSTANCES, ["cn", "nsslapd-suffix"]
        )
        backends = [_lowered(attributes) for _, attributes in found]
        backend = backend_of(backends, first_dn(ldif), uri)
        content = {
            "objectClass": [b"top", b"extensibleObject"],
            "nsFilename": [os.fsencode(ldif.resolve())],
            "nsInstance": [backend.encode()],
        }
        begun_s = time.monotonic()
        connection.add_s(dn, list(content.items()))
        task: Entry = {}
        while "nstaskexitcode" not in task:
            time.sleep(_POLL_S)
            # a server that imports may be slow to answer
            with contextlib.suppress(ldap.TIMEOUT):
                task = _lowered(connection.read_s(dn))
                tell((text_of(task, "nstasklog") or "").strip().rpartition("\n")[2])
    except ldap.LDAPError as error:
        if result_code_of(error) < 0:
            raise TargetUnreachable(uri, error_text(error)) from error
        raise TargetError(
            f"target {uri!r} runs no import task: {error_text(error)} "
            f"({result_code_of(error)})",
            hint="that is done by cn=Directory Manager of a 389-DS",
        ) from error
    finally:
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()
    seconds = time.monotonic() - begun_s
    words = [text_of(task, name) or "" for name in ("nstasklog", "nstaskstatus")]
    status = int(text_of(task, "nstaskexitcode") or 0)
    return imported("import-task", seconds, status, "\n".join(words).strip())


def _lowered(attributes: Attributes) -> Entry:
    return {name.lower(): values for name, values in attributes.items()}
