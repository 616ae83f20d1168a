# SPDX-License-Identifier: Apache-2.0
"""A bundle's files and wheels, and what its install.sh refuses before it installs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli.serve.bundle import _glibc, _pack, _write_texts
from ldapslam.cli.serve.installed_wheels import closure, tags, write_wheel
from support.wheels import CONTENT, fake_distribution

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
    """install.sh of ./bundle, which has no wheels yet, into ./installed."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()

    def run(
        folder: str = "installed", change: str = "", **values: str
    ) -> subprocess.CompletedProcess[str]:
        (bundle / "SHA256SUMS").unlink(missing_ok=True)
        _write_texts(bundle, {**HERE, **values})
        if change:
            (bundle / change).write_text("changed")
        return subprocess.run(
            [bundle / "install.sh", folder],
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


#: A wheel's name -> its modules, and what they have.
MODULES = {
    "ldap": {"ldap.py": ""},
    "ldapslam": {
        "ldapslam/agent/_engine.py": "",
        "ldapslam/start.py": "def start():\n    print('version', 1)\n",
    },
}


def write_wheels(folder: Path, version: int) -> None:
    """pip's, and stand-ins for the others."""
    folder.mkdir(exist_ok=True)
    write_wheel(distribution("pip"), folder)
    for name, files in MODULES.items():
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        notes = {
            "METADATA": metadata,
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
            "entry_points.txt": "",
        }
        if name == "ldapslam":
            script = "[console_scripts]\nldapslam = ldapslam.start:start\n"
            notes["entry_points.txt"] = script
        path = folder / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for file, text in files.items():
                wheel.writestr(file, text.replace("1)", f"{version})"))
            for file, text in notes.items():
                wheel.writestr(f"{info}/{file}", text)


def said(program: Path) -> str:
    return subprocess.run(
        [program], capture_output=True, text=True, check=True, env={}, timeout=60
    ).stdout


@pytest.fixture
def earlier(installer: Installer, tmp_path: Path) -> Path:
    """An installation of version 1, of a Python that the host has no more, and a file
    of the operator's."""
    write_wheels(tmp_path / "bundle" / "wheels", 1)
    ended = installer()
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "installed"
    (folder / "agent.toml").write_text("the operator's")
    python = folder / "bin" / "python"
    python.unlink()
    python.symlink_to("/none/python")
    return folder


def files_in(folder: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_an_upgrade_that_fails_leaves_what_was_installed(
    installer: Installer, earlier: Path, tmp_path: Path
) -> None:
    before, wheels = files_in(earlier), tmp_path / "bundle" / "wheels"
    shutil.rmtree(wheels)
    assert "the wheels cannot be installed" in installer().stderr  # there are none
    assert files_in(earlier) == before
    write_wheels(wheels, 2)
    (wheels / "ldap-2-py3-none-any.whl").write_text("of a full disk")
    ended = installer()
    assert ended.returncode == 1
    assert "the wheels cannot be installed" in ended.stderr
    assert files_in(earlier) == before


def test_an_upgrade_takes_the_place_of_what_was_installed(
    installer: Installer, earlier: Path, tmp_path: Path
) -> None:
    wheels = tmp_path / "bundle" / "wheels"
    for version in (2, 3):
        shutil.rmtree(wheels, ignore_errors=True)
        write_wheels(wheels, version)
        ended = installer()
        assert ended.returncode == 0, ended.stderr
        assert said(earlier / "bin" / "ldapslam") == f"version {version}\n"
        subprocess.run([earlier / "bin" / "python", "-c", "import ldap"], check=True)
    assert (earlier / "agent.toml").read_text() == "the operator's"
    assert [one.name for one in earlier.glob(".venv-*")] == [".venv-a"]


@pytest.mark.parametrize(
    ("there", "current"),
    [
        ([".profile"], None),
        (["pyvenv.cfg"], None),
        (["bin/ldapslam", "pyvenv.cfg"], None),
        *(
            (["releases/7/program", "bin/program", "share/file"], target)
            for target in ("releases/7", "none", "..", ".venv-a/../share")
        ),
    ],
)
def test_a_folder_of_something_else_is_left_alone(
    there: list[str], current: str | None, installer: Installer, tmp_path: Path
) -> None:
    write_wheels(tmp_path / "bundle" / "wheels", 1)
    folder = tmp_path / "installed"
    for one in there:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_text("of somebody")
    if current:
        (folder / "current").symlink_to(current)
    before = files_in(folder)
    ended = installer()
    assert ended.returncode == 1
    assert "holds something that is not ldapslam's: " in ended.stderr
    assert "\nhint: name a folder that is empty" in ended.stderr
    assert files_in(folder) == before
    assert current is None or os.readlink(folder / "current") == current


def test_an_installation_that_is_ended_after_the_switch_stays(
    installer: Installer, earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "bundle" / "wheels"
    shutil.rmtree(wheels)
    write_wheels(wheels, 2)
    move = tmp_path / "programs" / "mv"
    move.parent.mkdir()
    move.write_text(f'#!/bin/sh\n{shutil.which("mv")} "$@"\nkill -TERM $PPID\n')
    move.chmod(0o700)
    monkeypatch.setenv("PATH", f"{move.parent}:{os.environ['PATH']}")
    assert installer().returncode == 1
    assert said(earlier / "current" / "bin" / "ldapslam") == "version 2\n"


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


# Wheels made of what is installed: as those it was installed from, or an error.


def test_a_wheel_has_what_its_wheel_had(tmp_path: Path) -> None:
    one = fake_distribution(tmp_path)
    path = write_wheel(one, tmp_path)
    assert path.name == "some_thing-1.5-py2.py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        assert {Path(name).name for name in wheel.namelist()} == {
            *("some.py", "METADATA", "WHEEL", "RECORD")
        }
        assert wheel.read("some.py").decode() == CONTENT
    content = path.read_bytes()
    assert write_wheel(one, tmp_path).read_bytes() == content


def test_pip_installs_the_same_once_more(tmp_path: Path) -> None:
    """Scripts of entry points, other scripts (pip's), data (fonttools')."""
    names = ("pip", "fonttools", "click")
    originals = [distribution(name) for name in names]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-index"),
            *("--no-deps", "--no-compile", "--ignore-installed"),
            *("--prefix", str(tmp_path / "env")),
            *(str(write_wheel(one, tmp_path)) for one in originals),
        ],
        check=True,
        timeout=120,
    )

    # what an installation writes itself is not compared
    own = {"RECORD", "REQUESTED", "direct_url.json"}

    def files(one: Distribution) -> dict[str, str]:
        return {
            # a script has the Python of its installation
            str(file): "" if "bin" in file.parts or not file.hash else file.hash.value
            for file in one.files or ()
            if file.suffix != ".pyc" and file.name not in own
        }

    folders = (tmp_path / "env").rglob("*.dist-info")
    again = {one.name: one for one in map(PathDistribution, folders)}
    for one in originals:
        assert files(again[one.name]) == files(one)
    scripts = tmp_path / "env" / "bin"
    assert all((scripts / name).stat().st_mode & 0o111 for name in ("pip", "fonttools"))


def change(site: Path) -> None:
    (site / "some.py").write_text("answer = 43\n")


def remove(site: Path) -> None:
    (site / "some.py").unlink()


def install_for_user(site: Path) -> None:
    """A script is below ~/.local, and nothing tells where it belongs in a wheel."""
    (site.parent / "script").write_text("#!/bin/sh\n")
    record = site / "some_thing-1.5.dist-info" / "RECORD"
    record.write_text(f"{record.read_text()}\n../script,,")


@pytest.mark.parametrize(
    ("alter", "error", "remedy"),
    [
        (change, r"some\.py, of some-thing: not what was", "install some-thing 1.5"),
        (remove, "No such file", "install some-thing 1.5 again, with pip's --force"),
        (install_for_user, "script, of some-thing, is outside", "environment of its"),
    ],
)
def test_what_is_not_as_it_was_installed_is_not_packed(
    tmp_path: Path, alter: Callable[[Path], None], error: str, remedy: str
) -> None:
    one = fake_distribution(tmp_path)
    alter(tmp_path / "site-packages")
    with pytest.raises(ConfigError, match=error) as caught:
        write_wheel(one, tmp_path)
    assert remedy in (caught.value.hint or "")


def test_an_editable_checkout_is_no_wheel(tmp_path: Path) -> None:
    source = {"url": "file:///src/it", "dir_info": {"editable": True}}
    with pytest.raises(ConfigError, match="editable checkout") as caught:
        tags(fake_distribution(tmp_path, source=json.dumps(source)))
    assert caught.value.hint == "`make bundle` in /src/it makes one"


def test_what_a_package_of_the_system_installed_is_no_wheel(tmp_path: Path) -> None:
    one = fake_distribution(tmp_path)
    next(tmp_path.rglob("WHEEL")).unlink()
    with pytest.raises(ConfigError, match="was not installed from a wheel"):
        tags(one)


def test_the_closure_has_what_dependencies_need_and_no_extras_of_theirs() -> None:
    names = {one.name.lower() for one in closure("ldapslam", "pip")}
    # of ldapslam, of jinja2, of matplotlib, the installer
    assert {"ldapslam", "python-ldap", "markupsafe", "fonttools", "pip"} <= names
    # its tests' own
    assert not names & {"pytest", "hypothesis", "grpcio-tools"}
    # of an extra that it asks for
    assert {"psycopg", "psycopg-binary"} <= names


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match="no-such-thing is not installed"):
        closure("no-such-thing")
