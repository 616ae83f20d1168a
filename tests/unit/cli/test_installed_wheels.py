# SPDX-License-Identifier: Apache-2.0
"""Wheels made of what is installed: as those it was installed from, or an error."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli.serve.installed_wheels import closure, tags, write_wheel
from support.wheels import CONTENT, fake_distribution


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
