# SPDX-License-Identifier: Apache-2.0
"""A bundle's files, and what its install.sh refuses before it installs anything."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ldapslam.cli.serve.bundle import _glibc, _pack, _write_texts
from support.wheels import fake_distribution

HERE = {
    "VERSION": "1.5",
    "PYTHON": "{}.{}".format(*sys.version_info),
    "MACHINE": os.uname().machine,
    "GLIBC": "2.5",
    "NATIVE": "none",
}
Installer = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    """install.sh in a folder without wheels, into ./installed."""

    def run(
        folder: str = "installed", change: str = "", **values: str
    ) -> subprocess.CompletedProcess[str]:
        _write_texts(tmp_path, {**HERE, **values})
        if change:
            (tmp_path / change).write_text("changed")
        return subprocess.run(
            [tmp_path / "install.sh", folder],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"change": "README.txt"}, "this bundle is not as it was made"),
        ({"PYTHON": "3.99"}, f"for Python 3.99 on {HERE['MACHINE']}"),
        ({"MACHINE": "s390x"}, f"says: {HERE['PYTHON']} {HERE['MACHINE']}"),
        ({"GLIBC": "2.999"}, "needs glibc 2.999 or later; this host has: glibc 2."),
        ({"folder": "/proc/none"}, "no virtual environment in /proc/none"),
    ],
)
def test_what_cannot_work_is_refused_with_its_remedy(
    how: dict[str, str], message: str, installer: Installer, tmp_path: Path
) -> None:
    ended = installer(**how)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert "\nhint: " in ended.stderr
    assert not (tmp_path / "installed").exists()


def test_an_upgrade_may_be_for_another_python(
    installer: Installer, tmp_path: Path
) -> None:
    """As after an upgrade of the host: the Python of the installation is gone."""
    programs = tmp_path / "installed" / "bin"
    packages = tmp_path / "installed" / "lib" / "python3.99"
    for folder in (programs, packages):
        folder.mkdir(parents=True)
    (tmp_path / "installed" / "pyvenv.cfg").write_text("home = /none\n")
    (tmp_path / "installed" / "agent.toml").write_text("the operator's")
    (programs / "ldapslam").touch()
    for name, place in (("python3.99", "/none/python"), ("python", "python3.99")):
        (programs / name).symlink_to(place)
    installer()  # there are no wheels, so it gets no further
    subprocess.run([programs / "python", "-c", ""], check=True)
    assert not packages.exists()
    assert (tmp_path / "installed" / "agent.toml").read_text() == "the operator's"


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (".profile", "holds something that is not ldapslam's: "),
        ("pyvenv.cfg", "is a virtual environment of another Python, without ldapslam"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(
    there: str, message: str, installer: Installer, tmp_path: Path
) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / there).write_text("of somebody")
    ended = installer()
    assert ended.returncode == 1
    assert message in ended.stderr
    assert "\nhint: name a folder that is empty" in ended.stderr
    assert [path.name for path in (tmp_path / "installed").iterdir()] == [there]


def test_the_texts_have_no_place_left_open(tmp_path: Path) -> None:
    _write_texts(tmp_path, HERE)
    texts = [(tmp_path / name).read_text() for name in ("README.txt", "install.sh")]
    assert not any(f"@{key}@" in text for key in HERE for text in texts)
    assert f"Python {HERE['PYTHON']} on {HERE['MACHINE']} with glibc 2.5" in texts[0]


@pytest.mark.parametrize(
    ("tag", "glibc"),
    [
        ("py3-none-any", 0),
        ("cp311-abi3-manylinux_2_34_x86_64", 34),
        ("cp311-cp311-manylinux2014_x86_64.manylinux_2_28_x86_64", 17),
    ],
)
def test_a_wheels_tag_says_the_glibc_that_it_needs(
    tag: str, glibc: int, tmp_path: Path
) -> None:
    assert _glibc(fake_distribution(tmp_path, tag)) == glibc


def test_a_wheel_for_this_host_alone_needs_its_glibc(tmp_path: Path) -> None:
    one = fake_distribution(tmp_path, "cp311-cp311-linux_x86_64")
    assert f"glibc 2.{_glibc(one)}" == os.confstr("CS_GNU_LIBC_VERSION")


def test_the_same_files_are_the_same_archive(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    _write_texts(folder, HERE)
    digests = {_pack(folder, "it", tmp_path / f"{name}.tar.gz") for name in "ab"}
    os.utime(folder / "README.txt", (1, 1))
    assert digests == {_pack(folder, "it", tmp_path / "c.tar.gz")}
    with tarfile.open(tmp_path / "c.tar.gz") as archive:
        members = {member.name: member.mode for member in archive}
    assert members == {
        "it": 0o755,
        "it/README.txt": 0o644,
        "it/SHA256SUMS": 0o644,
        "it/install.sh": 0o755,
    }


def test_a_bundle_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    _write_texts(folder, HERE)
    out = tmp_path / "out.tar.gz"
    out.write_text("of yesterday")

    def add(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tarfile.TarFile, "add", add)
    with pytest.raises(OSError, match="No space left"):
        _pack(folder, "it", out)
    assert out.read_text() == "of yesterday"
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "out.tar.gz"}
