# SPDX-License-Identifier: Apache-2.0
"""What is released has all that it needs, and nothing else; the lock files are in step
with pyproject.toml, and the licences of what is installed allow its use."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ldapslam.cli.serve.installed_wheels import closure

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MANUAL_PAGE = "build/man/ldapslam.1"
PACKAGES = {path.parent.name for path in ROOT.glob("*/__init__.py")}
#: Of a checkout alone.
NOT_RELEASED = re.compile(
    r"\.|tests/|benchmarks/|(Containerfile|Makefile|requirements-dev\.lock)$"
)


def tracked() -> set[str]:
    """The files of the checkout, new ones too, as git knows them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def build(kind: str, source: Path, into: Path, *settings: str) -> Path:
    """The file that the build backend makes, as `python -m build` calls it."""
    code = (
        "import sys, scikit_build_core.build as backend\n"
        "kind, into, *settings = sys.argv[1:]\n"
        "settings = dict(one.split('=') for one in settings)\n"
        "print(getattr(backend, 'build_' + kind)(into, settings))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, kind, str(into), *settings],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return into / ended.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        copy = checkout / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy, follow_symlinks=False)
    page = checkout / MANUAL_PAGE
    page.parent.mkdir(parents=True)
    page.write_text("made before a release is")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", checkout, folder)) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def test_the_sdist_is_the_checkout_without_its_tests_and_has_the_manual(
    sdist: Path,
) -> None:
    names = {
        str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()
    }
    released = {name for name in tracked() if not NOT_RELEASED.match(name)}
    assert names == {*released, MANUAL_PAGE, "PKG-INFO"}


def test_a_wheel_out_of_the_sdist_has_every_file_of_the_packages(
    sdist: Path, tmp_path: Path
) -> None:
    # the engine itself is not compiled here: tests/integration/test_release.py does
    wheel = build("wheel", sdist, tmp_path, "wheel.cmake=false", "wheel.py-api=py3")
    with zipfile.ZipFile(wheel) as content:
        names = {one for one in content.namelist() if not one.endswith("/")}
    packaged = {
        f"ldapslam/{name}"
        for name in tracked()
        if name.partition("/")[0] in {"__init__.py", "py.typed", *PACKAGES}
        if not name.startswith("agent/csrc/")
    }
    of_metadata = {name for name in names if ".dist-info/" in name}
    assert names - of_metadata == packaged
    assert {name.split("/", 1)[1] for name in of_metadata} >= {"licenses/LICENSE"}
    # what is easily forgotten
    assert {
        "ldapslam/reports/templates/report.typ",
        "ldapslam/configs/jobs/demo.yaml",
        "ldapslam/agent/_engine.pyi",
        "ldapslam/__init__.py",
        "ldapslam/py.typed",
    } <= names


# -- lock files ------------------------------------------------------------------------


def pins(name: str) -> dict[str, set[Version]]:
    """What a lock file pins; for some there is a version for each Python."""
    found: dict[str, set[Version]] = {}
    for pin in re.findall(r"^(\S+?)==(\S+) .*\\\n    --hash=", _lock(name), re.M):
        found.setdefault(canonicalize_name(pin[0]), set()).add(Version(pin[1]))
    return found


def _lock(name: str) -> str:
    return (ROOT / name).read_text()


RUN_TIME = PROJECT["project"]["dependencies"]
DEVELOPMENT = [
    *RUN_TIME,
    *(one for group in PROJECT["dependency-groups"].values() for one in group),
]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("requirements.lock", RUN_TIME), ("requirements-dev.lock", DEVELOPMENT)],
)
def test_a_lock_file_is_in_step(name: str, wanted: list[str]) -> None:
    pinned = pins(name)
    # each with a hash
    assert sum(map(len, pinned.values())) == len(
        re.findall(r"^[a-z].*==", _lock(name), re.M)
    )
    for need in map(Requirement, wanted):
        versions = pinned.get(canonicalize_name(need.name))
        assert versions, f"{need.name} is not in {name}: `make lock`"
        assert all(one in need.specifier for one in versions), (
            f"{name} has {need.name} {versions}, not {need.specifier}: `make lock`"
        )


def test_both_lock_files_have_the_same_versions() -> None:
    run_time, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {name: development.get(name) for name in run_time} == run_time


def test_the_locks_have_all_that_is_needed_and_no_more() -> None:
    needed = {canonicalize_name(one.name) for one in closure("ldapslam")}
    assert set(pins("requirements.lock")) == needed - {"ldapslam"}


# -- licences --------------------------------------------------------------------------

#: Of what an Apache-2.0 program may use and its bundle may hold: permissive ones, and
#: weak copyleft of packages that stay as they are. As metadata spell them.
ALLOWED = {
    *(
        "Apache-2.0",
        "Apache Software License",
        "MIT",
        "MIT License",
        "MIT-0",
        "MIT-CMU",
    ),
    *("BSD", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "3-Clause BSD License"),
    *(
        "0BSD",
        "ISC",
        "Zlib",
        "CC0-1.0",
        "PSF-2.0",
        "Python Software Foundation License",
    ),
    *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)", "LGPL-3.0-only"),
}


@pytest.mark.parametrize("one", closure("ldapslam", "pip"), ids=lambda one: one.name)
def test_each_dependency_has_a_licence_that_is_allowed(one: Distribution) -> None:
    said: dict[str, Any] = one.metadata.json
    expression = re.sub("[()]", "", said.get("license_expression", ""))
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in said.get("classifier", ())
        if text.startswith("License ::")
    ]
    found = re.split(r" (?:AND|OR|WITH) ", expression) if expression else classifiers
    assert set(found or [said.get("license", "none")]) <= ALLOWED
