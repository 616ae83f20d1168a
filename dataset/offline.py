# SPDX-License-Identifier: Apache-2.0
"""Entries of an LDIF file into a database whose server does not run: slapadd, ldif2db.

What is timed is the program alone. A database that a server has open is refused: what
two processes write into it at once is lost, or both of them are.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.dataset.ldif import is_packed, ldif_entries, open_ldif
from ldapslam.dataset.local_tree import first_dn
from ldapslam.dataset.slapd_config import find_database, running_slapd
from ldapslam.directory.entry_digest import is_below, normalised_dn

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


def _never() -> bool:
    return False


def slapadd(
    ldif: Path,
    config: Path,
    *,
    is_quick: bool = False,
    continue_on_error: bool = False,
    program: Sequence[str] = (),
    is_stopping: IsStopping = _never,
) -> OfflineResult:
    """Add the entries to the database of their suffix; others in it stay.

    `is_quick`: slapadd -q, without checks and transactions. `program`: instead of the
    installed slapadd. ConfigError: the program or the database is not to be found.
    TargetError: a slapd has the database open. ImportStopped.
    """
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
    ended = _run(argv, ldif if is_piped else None, is_stopping)
    return imported("slapadd", ended.seconds, ended.status, ended.text, ended.usage)


def ldif2db(
    ldif: Path,
    config: Path,
    *,
    program: Sequence[str] = (),
    is_stopping: IsStopping = _never,
) -> OfflineResult:
    """Put the entries in place of all those of the back end of their suffix.

    `config` is the instance's folder with dse.ldif; `program` stands for the installed
    ns-slapd. Errors as of slapadd.
    """
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
    # what becomes of entries it says in the server's log alone
    logs = settings.get(b"cn=config", {}).get("nsslapd-errorlog", ())
    begins = [(path, _size(path)) for path in map(Path, map(os.fsdecode, logs))]
    ended = _run(argv, None, is_stopping)
    text = "\n".join([ended.text, *(_from(path, begin) for path, begin in begins)])
    return imported("ldif2db", ended.seconds, ended.status, text, ended.usage)


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


@dataclass(frozen=True, slots=True)
class _Ended:
    seconds: float
    status: int
    text: str
    usage: Usage


def _run(argv: Sequence[str], piped: Path | None, is_stopping: IsStopping) -> _Ended:
    """Run a program to its end."""
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
        return _Ended(seconds, process.returncode, text, usage)


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
    """Nobody waits for a program whose parent was killed: it is killed too."""
    setpriv = shutil.which("setpriv", path=_PATH)
    return [] if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--"]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


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


def _dse(config: Path) -> dict[bytes, dict[str, Sequence[bytes]]]:
    return {
        normalised_dn(dn): {name.lower(): values for name, values in attributes.items()}
        for dn, attributes in ldif_entries(config / "dse.ldif")
    }


def _ds389_pid(settings: Mapping[bytes, Mapping[str, Sequence[bytes]]]) -> int | None:
    """A server has a file with its process id as name while it runs."""
    folders = settings.get(b"cn=config", {}).get("nsslapd-lockdir", ())
    for folder in folders:
        for lock in Path(os.fsdecode(folder), "server").glob("[0-9]*"):
            if (pid := running_slapd(lock.name)) is not None:
                return pid
    return None


def backend_of(
    backends: Iterable[Mapping[str, Sequence[bytes]]], dn: str, where: str
) -> str:
    """Name of the back end whose suffix the first entry of an import, `dn`, is; of
    entries of the class nsBackendInstance with names of attributes in lower case.
    ConfigError: there is none, or its suffix would be gone: an import takes the place
    of all entries, and without their suffix it leaves out those that it has."""
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
