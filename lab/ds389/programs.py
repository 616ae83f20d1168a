# SPDX-License-Identifier: Apache-2.0
"""ns-slapd and what it needs on this machine, or in a build under test.

Nothing here starts a server; ns-slapd is asked for its version.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.lab.server import LabError
from ldapslam.lab.site import checked_binary, version_answer, version_line

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_TEMPLATE_FOLDERS = ("/usr/share/dirsrv/data", "/usr/local/share/dirsrv/data")
_TEMPLATE = "template-dse.ldif"


# libback-ldbm has the back ends that it was built with.
_PLUGIN_FOLDERS = ("lib/dirsrv/plugins", "lib64/dirsrv/plugins")
_MARKS = {"bdb": b"bdb_init", "mdb": b"dbmdb_init"}


@dataclass(frozen=True)
class Programs:
    """ns-slapd and its companions."""

    ns_slapd: Path
    #: Of ns-slapd, as it says.
    version: str
    certutil: Path
    pk12util: Path
    #: Holds template-dse.ldif and template-suffix-db.ldif.
    template_folder: Path
    #: `bdb`, `mdb`; empty where it cannot be told.
    backends: frozenset[str]


def find_programs(binary: Path | None = None) -> Programs:
    """ns-slapd, or what belongs to `binary`; LabError with the package that is missing,
    ConfigError for a bad `binary`."""
    if binary is None:
        ns_slapd = _program("ns-slapd", "389-ds-base")
        prefixes = [ns_slapd.resolve().parent.parent]
    else:
        hint = "PREFIX/sbin/ns-slapd of an installed build"
        ns_slapd = checked_binary(binary, hint)
        prefixes = [ns_slapd.parent.parent]
    templates = [prefix / "share/dirsrv/data" for prefix in prefixes]
    templates += [Path(folder) for folder in _TEMPLATE_FOLDERS]
    found = [folder for folder in templates if (folder / _TEMPLATE).exists()]
    if not found:
        kind = LabError if binary is None else ConfigError
        raise kind(
            f"no {_TEMPLATE} in {[str(folder) for folder in templates]}",
            hint="`apt-get install 389-ds-base`, or `make install` of the build",
        )
    return Programs(
        ns_slapd=ns_slapd,
        version=version_line(version_answer(ns_slapd, "-v", "389", "ns-slapd")),
        certutil=_program("certutil", "libnss3-tools"),
        pk12util=_program("pk12util", "libnss3-tools"),
        template_folder=found[0],
        backends=_backends(prefixes[0]),
    )


def _program(name: str, package: str) -> Path:
    path = shutil.which(name, path=_PATH)
    if path is None:
        raise LabError(
            f"{name} cannot be found on this machine",
            hint=f"`apt-get install {package}` on Debian and Ubuntu; no service of it "
            "need run",
        )
    return Path(path)


def _backends(prefix: Path) -> frozenset[str]:
    folders = [prefix / folder for folder in _PLUGIN_FOLDERS]
    folders += sorted(prefix.glob("lib/*/dirsrv/plugins"))
    for folder in folders:
        library = folder / "libback-ldbm.so"
        if library.exists():
            code = library.read_bytes()
            return frozenset(name for name, mark in _MARKS.items() if mark in code)
    return frozenset()
