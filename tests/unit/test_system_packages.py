# SPDX-License-Identifier: Apache-2.0
"""What `make` asks a bare system for, target by target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "system-packages"
BUILD = {"build-essential", "cmake", "libldap-dev", "libsasl2-dev"}
SERVERS = {"389-ds-base", "libnss3-tools", "slapd"}


def asked_for(level: str, folder: Path) -> set[str]:
    """Where no program but the shell's own is found, and there is no apt-get."""
    if not SCRIPT.exists():
        pytest.skip("not a checkout")
    for name in ("id", "ls", "grep"):
        (folder / name).symlink_to(shutil.which(name) or "")
    text = SCRIPT.read_text()
    for usual in ("$PATH:/usr/sbin:/sbin:/usr/local/sbin", "/usr/lib/", "/usr/lib*/"):
        assert usual in text
        text = text.replace(usual, f"{folder}/")
    script = folder / "system-packages"
    script.write_text(text)
    ended = subprocess.run(
        [shutil.which("sh") or "", script, sys.executable, level],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "hint: there is no apt-get here" in ended.stderr
    (first, *_) = ended.stderr.splitlines()
    return set(first.partition("missing:")[2].split())


@pytest.mark.parametrize(
    ("level", "wanted", "unwanted"),
    [
        ("", BUILD, SERVERS | {"ldap-utils"}),
        ("demo", BUILD | {"slapd"}, SERVERS - {"slapd"} | {"ldap-utils", "tshark"}),
        ("test", BUILD | SERVERS | {"ldap-utils"}, {"tshark", "clang", "maven"}),
        ("full", BUILD | SERVERS | {"tshark", "clang"}, {"maven"}),
        ("bench", BUILD | {"slapd", "maven"}, {"tshark", "libnss3-tools"}),
    ],
)
def test_a_level_needs_its_packages_and_no_others(
    level: str, wanted: set[str], unwanted: set[str], tmp_path: Path
) -> None:
    asked = asked_for(level, tmp_path)
    assert wanted <= asked
    assert not unwanted & asked
