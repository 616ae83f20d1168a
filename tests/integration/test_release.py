# SPDX-License-Identifier: Apache-2.0
"""What `make bundle` made: installed and used where there is neither a network nor a
compiler. `make check-full` makes it first."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from ldapslam.cli.serve.bundle import MANYLINUX, sha256_of
from support.command_line import environment
from support.network import need

pytestmark = pytest.mark.long

DIST = Path(__file__).resolve().parents[2] / "dist"
#: What install.sh calls.
TOOLS = (
    *("sh", "dirname", "realpath", "sha256sum", "getconf", "sort", "head"),
    *("readlink", "ln", "mv", "rm"),
)
#: A host of its own, which has its loopback alone.
ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def made(pattern: str) -> Path:
    """The one file of dist/ with such a name."""
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"dist has {found} of {pattern}: `make bundle` makes them"
    return found[0]


@pytest.fixture(scope="module")
def bundle() -> Path:
    need(*ALONE, "true")
    return made("ldapslam-*-python*.tar.gz")


@pytest.fixture(scope="module")
def installed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an installation that had these tools and no others."""
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, filter="data")
    tools = folder / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or "")
    subprocess.run(
        [
            *(*ALONE, "env", "-i", f"PATH={tools}", f"PYTHON={sys.executable}"),
            *(next(folder.glob("*/install.sh")), folder / "installed"),
        ],
        check=True,
        timeout=600,
    )
    return folder / "installed" / "bin"


def ldapslam(
    installed: Path, *arguments: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ALONE, str(installed / "ldapslam"), *arguments],
        cwd=cwd,
        env=environment({"PYTHONPATH": ""}),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_wheels_bring_libldap_for_a_glibc_of_2021() -> None:
    for pattern in ("ldapslam-*.whl", "python_ldap-*.whl"):
        path = made(pattern)
        tag = MANYLINUX.search(path.name)
        assert tag is not None
        assert int(tag[1]) <= 34  # of RHEL 9
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
        libraries = [name for name in names if ".libs/libldap" in name]
        assert len(libraries) == 1, names
        licences = {Path(name).name for name in names if "/licenses/libraries/" in name}
        assert {"libgmp10", "libgnutls30", "libsasl2-2"} <= licences
    with zipfile.ZipFile(made("ldapslam-*-cp311-abi3-*.whl")) as wheel:
        names = wheel.namelist()
    assert "ldapslam/agent/_engine.abi3.so" in names
    pages = {path.name for path in (DIST.parent / "build" / "man").glob("*.1")}
    assert "ldapslam.1" in pages
    assert {Path(name).name for name in names if "/share/man/man1/" in name} == pages


def test_a_demo_passes_on_such_a_host(installed: Path, tmp_path: Path) -> None:
    ended = ldapslam(installed, "demo", "--json", "--out", "result", cwd=tmp_path)
    # INVALID: a busy machine is no fault of the installation
    assert ended.returncode in (0, 3), ended.stderr
    result = json.loads(ended.stdout)
    assert result["figures"]
    assert (tmp_path / "result" / "report.pdf").exists()


def test_it_packs_the_same_bundle_once_more(
    bundle: Path, installed: Path, tmp_path: Path
) -> None:
    ended = ldapslam(installed, "fleet", "bundle", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    again = json.loads(ended.stdout)
    assert again["file"] == bundle.name
    assert again["sha256"] == sha256_of(tmp_path / bundle.name) == sha256_of(bundle)
