# SPDX-License-Identifier: Apache-2.0
"""`ldapslam data generate` as users call it, and what servers make of its files."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import ldap
import pytest

from ldapslam.dataset.generate import Generation, example_templates, generate
from ldapslam.dataset.offline import ldif2db
from support.command_line import COMMAND, Running, check_ldapslam, environment
from support.generated import parse_ldif
from support.lab import Lab

SBIN = "/usr/sbin:/usr/libexec"
SUFFIX = "dc=example,dc=com"
SLAPD_CONF = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 2147483648
suffix dc=example,dc=com
directory {folder}
index objectClass,uid eq
"""


def slapd_conf(folder: Path) -> Path:
    (folder / "db").mkdir()
    conf = folder / "slapd.conf"
    conf.write_text(SLAPD_CONF.format(folder=folder / "db"))
    return conf


def offline(program: str, conf: Path, *arguments: str | Path) -> str:
    """What slapadd or slapcat says; it must succeed."""
    path = shutil.which(program) or shutil.which(program, path=SBIN)
    assert path is not None
    done = subprocess.run(
        [path, "-f", str(conf), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def test_command_writes_the_file_and_says_what_it_made(tmp_path: Path) -> None:
    done = check_ldapslam(
        *("data", "generate", "people", "--entries", "2000", "-o", "p.ldif", "--json"),
        *("--dn-file", "dns", "--bind-file", "binds"),
        *("--constant", "suffix=o=test", "--seed", "7"),
        cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert document["entries"] == 2002
    assert document["size_bytes"] == (tmp_path / "p.ldif").stat().st_size
    entries = parse_ldif((tmp_path / "p.ldif").read_bytes())
    assert entries[1999 + 2][0] == "uid=user.1999,ou=people,o=test"
    assert (tmp_path / "dns").read_text().count("\n") == 2000
    assert (tmp_path / "binds").read_text().endswith("o=test\tpassword\n")


def test_files_with_passwords_are_their_owners_alone(tmp_path: Path) -> None:
    other = tmp_path / "others"
    other.write_text("kept")
    for name in ("binds", "p.ldif"):
        (tmp_path / f"{name}.partial").symlink_to(other)
    binds, ldif = tmp_path / "binds", tmp_path / "p.ldif"
    generate(Generation("people", entries=5, output=ldif, bind_file=binds))
    assert stat.S_IMODE(binds.stat().st_mode) == 0o600
    assert other.read_text() == "kept"
    assert sorted(tmp_path.iterdir()) == [binds, other, ldif]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 0, "entries"),
        (
            ("--dn-file", "dns", "--bind-file", "binds"),
            2,
            "no file was made: a reader left before the end",
        ),
    ],
)
def test_reader_of_stdout_may_leave_and_no_file_is_made(
    tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    arguments = ["data", "generate", "people", "--entries", "200000"]
    with subprocess.Popen(
        [*COMMAND, *arguments, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=tmp_path,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"dn: {SUFFIX}\n"
        process.stdout.close()
        assert process.wait(60) == code
        assert process.stderr is not None
        told = process.stderr.read()
    assert said in told
    assert ("cannot be written" in told) == bool(code)
    assert not list(tmp_path.iterdir())


def test_interrupt_leaves_no_file_behind(tmp_path: Path) -> None:
    arguments = ("data", "generate", "people", "--entries", "900000000", "-o", "p.ldif")
    (tmp_path / "out").mkdir()
    with Running(
        *arguments, "--dn-file", tmp_path / "out" / "dns", cwd=tmp_path
    ) as command:
        while not (partial := tmp_path / "p.ldif.partial").exists() or (
            not partial.stat().st_size
        ):
            assert command.process.poll() is None
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60) == 130
    assert not list(tmp_path.glob("p.ldif*"))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_reader_that_reads_nothing_holds_no_interrupt_up(
    tmp_path: Path, how: signal.Signals
) -> None:
    fifo = tmp_path / "entries"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    try:
        with Running(
            *("data", "generate", "people", "--entries", "900000000", "-o", "entries"),
            cwd=tmp_path,
        ) as command:
            while select.select([], [writer], [], 0.05)[1]:
                assert command.process.poll() is None
            command.process.send_signal(how)
            assert command.process.wait(10) == 130
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.usefixtures("slapd_installed")
@pytest.mark.parametrize("name", example_templates())
def test_slapadd_accepts_the_example_templates(name: str, tmp_path: Path) -> None:
    generate(Generation(name, output=tmp_path / "data.ldif", entries=1000))
    offline("slapadd", slapd_conf(tmp_path), "-u", "-l", tmp_path / "data.ldif")


@pytest.mark.long
@pytest.mark.usefixtures("slapd_installed")
def test_slapd_loads_a_hundred_thousand(tmp_path: Path) -> None:
    generate(Generation("people", output=tmp_path / "data.ldif", entries=100_000))
    conf = slapd_conf(tmp_path)
    offline("slapadd", conf, "-q", "-l", tmp_path / "data.ldif")
    there = offline("slapcat", conf, "-o", "ldif-wrap=no")
    assert there.count("\ndn: uid=user.") == 100_000


@pytest.mark.long
@pytest.mark.usefixtures("ds389_installed")
def test_ds389_loads_the_example_templates_and_a_hundred_thousand() -> None:
    with Lab(server="389ds", entries=10) as lab:
        server = lab.supplier
        lab.stop(server)
        ldif = server.folder / "data.ldif"
        for name in example_templates():
            made = generate(Generation(name, output=ldif, entries=6000))
            done = ldif2db(ldif, server.folder / "config")
            assert done.is_whole, done.output
            assert done.processed == made.entries
        generate(Generation("people", output=ldif, entries=100_000))
        done = ldif2db(ldif, server.folder / "config")
        assert done.is_whole, done.output
        lab.start(server)
        found = lab.search(server, SUFFIX, ldap.SCOPE_SUBTREE, ["1.1"])
        assert sum(dn.startswith("uid=user.") for dn in found) == 100_000
