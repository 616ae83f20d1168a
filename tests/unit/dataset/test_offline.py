# SPDX-License-Identifier: Apache-2.0
"""Databases found in a slapd's configuration, locks found, words of imports read."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.dataset.offline import (
    ImportStopped,
    SlapdDatabase,
    backend_of,
    find_database,
    imported,
    ldif2db,
    slapadd,
)

CONF = """\
include {folder}/more.conf
# database mdb
database config
rootdn "cn=config"

database\tmdb
suffix "dc=example,dc=com"
suffix
   dc=example,dc=org
directory {folder}/db
rootpw secret

database monitor
database ldif
suffix "o=files"
directory "{folder}/a b"
"""

SLAPD_D = {
    "cn=config.ldif": "# CRC32 1\ndn: cn=config\nolcPidFile: {folder}/pid\n",
    "cn=config/olcDatabase={{0}}config.ldif": "dn: olcDatabase={{0}}config\n"
    "olcDatabase: {{0}}config\n",
    "cn=config/olcDatabase={{1}}mdb.ldif": "dn: olcDatabase={{1}}mdb\n"
    "olcDatabase: {{1}}mdb\nolcDbDirectory: {folder}/db\n"
    "olcSuffix: dc=example,dc=com\nolcSuffix:: ZGM9ZXhhbXBsZSxkYz1vcmc=\n",
    "cn=config/olcDatabase={{2}}ldif.ldif": "dn: olcDatabase={{2}}ldif\n"
    "olcDatabase: {{2}}ldif\nolcDbDirectory: {folder}/a b\nolcSuffix: o=files\n",
}


@pytest.fixture(params=["slapd.conf", "slapd.d"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "slapd.conf":
        (tmp_path / "more.conf").write_text(f"pidfile {tmp_path}/pid\n")
        (tmp_path / "slapd.conf").write_text(CONF.format(folder=tmp_path))
        return tmp_path / "slapd.conf"
    (tmp_path / "slapd.d" / "cn=config").mkdir(parents=True)
    for name, text in SLAPD_D.items():
        path = tmp_path / "slapd.d" / name.format()
        path.write_text(text.format(folder=tmp_path))
    return tmp_path / "slapd.d"


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "people.ldif"
    path.write_text("dn: dc=example,dc=com\ndc: example\n")
    return path


@contextmanager
def held_open(program: str) -> Iterator[int]:
    """The process id of a Python program that ends when this does."""
    code = f"{program}; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


ONE_CONFIG = pytest.mark.parametrize("config", ["slapd.conf"], indirect=True)


def test_the_database_of_a_dn_is_found(config: Path, tmp_path: Path) -> None:
    for dn in ("DC=example, dc=com", "uid=1,ou=people,dc=example,dc=org"):
        assert find_database(config, dn) == SlapdDatabase(
            "mdb",
            ("dc=example,dc=com", "dc=example,dc=org"),
            tmp_path / "db",
            tmp_path / "pid",
        )
    assert find_database(config, "cn=1,o=files").folder == tmp_path / "a b"


def test_a_dn_of_no_database_is_told(config: Path) -> None:
    with pytest.raises(ConfigError, match="dc=example,dc=org, o=files") as error:
        find_database(config, "dc=com")
    assert "slapd.d" in str(error.value.hint)


def test_configurations_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"it has no cn=config.ldif"):
        find_database(tmp_path, "dc=com")
    with pytest.raises(ConfigError, match="No such file"):
        find_database(tmp_path / "slapd.conf", "dc=com")


def test_an_open_database_is_refused(tmp_path: Path, config: Path, ldif: Path) -> None:
    """By the lock that LMDB has on it, or the process of its pid file."""
    database = find_database(config, "dc=example,dc=com")
    assert database.user_pid() is None
    (tmp_path / "pid").write_text(f"{2**22 + 1}\n")
    assert database.user_pid() is None
    (tmp_path / "db").mkdir()
    lock = tmp_path / "db" / "lock.mdb"
    lock.touch()
    holding = (
        f"import fcntl, sys; file = open({str(lock)!r}, 'r+b');"
        "fcntl.lockf(file, fcntl.LOCK_SH, 1, 0)"
    )
    with held_open(holding) as pid:
        assert database.user_pid() == pid
        with pytest.raises(TargetError, match=f"is open in process {pid}"):
            slapadd(ldif, config)
    assert database.user_pid() is None


@ONE_CONFIG
def test_what_a_program_took_is_counted(config: Path, ldif: Path) -> None:
    busy = "import os; x = bytearray(50_000_000); end = 0.3\n" + (
        "while sum(os.times()[:2]) < end: pass"
    )
    done = slapadd(ldif, config, program=[sys.executable, "-c", busy])
    assert done.is_success
    assert done.usage is not None
    assert 0.25 < done.usage.cpu_user_s + done.usage.cpu_system_s <= done.seconds + 0.1
    assert done.usage.peak_memory_bytes > 50_000_000


@ONE_CONFIG
def test_the_memory_of_who_starts_a_program_is_not_the_program_s(
    config: Path, ldif: Path
) -> None:
    ours = bytearray(200_000_000)
    done = slapadd(ldif, config, program=["sh", "-c", "sleep 0.2"])
    del ours
    assert done.usage is not None
    assert 100_000 < done.usage.peak_memory_bytes < 20_000_000


@pytest.fixture
def without_sigterm() -> Iterator[None]:
    """As an agent's processes are."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@ONE_CONFIG
def test_a_program_ends_when_it_is_asked_to(
    config: Path, ldif: Path, tmp_path: Path, without_sigterm: None
) -> None:
    waiting = "import os, signal, sys, time\n"
    waiting += "handler = signal.getsignal(signal.SIGTERM).name\n"
    waiting += "print(os.getpid(), handler, file=open(sys.argv[1], 'w'))\n"
    waiting += "time.sleep(600)"
    pid = tmp_path / "pid-of-it"
    with pytest.raises(ImportStopped):
        slapadd(
            ldif,
            config,
            program=[sys.executable, "-c", waiting, str(pid)],
            is_stopping=lambda: pid.exists() and pid.read_text() != "",
        )
    number, handler = pid.read_text().split()
    assert handler == "SIG_DFL"
    assert not Path("/proc", number).exists()


BACKENDS = [
    {"cn": [b"userRoot"], "nsslapd-suffix": [b"dc=example,dc=com"]},
    {"cn": [b"people"], "nsslapd-suffix": [b"ou=people, dc=example,dc=com"]},
    {"cn": [b"config"]},
]


def test_the_back_end_of_a_dn_is_that_of_the_longest_suffix() -> None:
    assert backend_of(BACKENDS, "dc=example,dc=com", "x") == "userRoot"
    assert backend_of(BACKENDS, "OU=people, dc=example,dc=com", "x") == "people"
    with pytest.raises(ConfigError, match="would leave the back end 'people' of 'x'"):
        backend_of(BACKENDS, "cn=a,OU=people,dc=example,dc=com", "x")
    with pytest.raises(ConfigError, match="no back end of 'x' is for 'dc=com'"):
        backend_of(BACKENDS, "dc=com", "x")


@pytest.mark.parametrize(
    ("text", "processed", "skipped"),
    [
        (
            "import userRoot: Import complete.  Processed 1002 entries in 2 seconds. "
            "(501.00 entries/sec)",
            1002,
            0,
        ),
        (
            "import userRoot: Import complete.  Processed 10 entries (2 were skipped) "
            "in 2 seconds. (5.00 entries/sec)",
            10,
            2,
        ),
        (
            "import x: Import complete.  Processed 10 entries (2 bad entries were "
            "skipped, 3 entries were skipped because they don't belong to this "
            "database) in 2 seconds. (5.00 entries/sec)",
            10,
            5,
        ),
        (
            'slapadd: could not add entry dn="cn=1" (line=1): no\n'
            "slapadd: could not parse entry (line=7)\n"
            "Entry (ou=x): object class 'country' requires attribute 'c'\n"
            "slapadd: dn=\"ou=x\" (line=9): (65) object class 'country' requires\n",
            None,
            3,
        ),
        ("", None, 0),
    ],
)
def test_what_programs_say(text: str, processed: int | None, skipped: int) -> None:
    result = imported("it", 1.0, 0, text)
    assert (result.processed, result.skipped) == (processed, skipped)
    assert result.is_whole == (not skipped)
    # of an import that came to its end, the status says that entries were left out
    assert imported("it", 1.0, 8, text).is_success == (processed is not None)


def test_a_running_389_ds_is_refused(tmp_path: Path, ldif: Path) -> None:
    """By the file that it has in its lock folder."""
    (tmp_path / "dse.ldif").write_text(
        f"dn: cn=config\nnsslapd-lockdir: {tmp_path}/lock\n"
    )
    with pytest.raises(ConfigError, match="no back end"):
        ldif2db(ldif, tmp_path)
    (tmp_path / "lock" / "server").mkdir(parents=True)
    named_so = (
        "import pathlib, sys; pathlib.Path('/proc/self/comm').write_text('ns-slapd')"
    )
    with held_open(named_so) as pid:
        (tmp_path / "lock" / "server" / str(pid)).touch()
        with pytest.raises(TargetError, match=f"runs as process {pid}"):
            ldif2db(ldif, tmp_path)
    with pytest.raises(ConfigError, match="no back end"):
        ldif2db(ldif, tmp_path)
