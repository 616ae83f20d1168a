# SPDX-License-Identifier: Apache-2.0
"""slapd's programs on this machine, or those of a build under test.

Nothing here starts a server or waits for one; only `slapd -VVV` is asked what is built
in. openldap.py does the rest.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.lab.server import LabError
from ldapslam.lab.site import checked_binary, version_answer, version_line

# Where distributions put what we need; Debian's come first.
_PROGRAM_FOLDERS = (
    "/usr/sbin",
    "/usr/libexec",
    "/usr/lib/openldap",
    "/usr/local/libexec",
)
_MODULE_FOLDERS = ("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap")
_SCHEMA_FOLDERS = ("/etc/ldap/schema", "/etc/openldap/schema")

# A build under test, from the folder of its slapd: installed below a prefix in
# libexec or sbin, in usr/sbin of an unpacked package, or in servers/slapd of the
# source tree.
_BUILT_SCHEMA_FOLDERS = (
    "../etc/openldap/schema",
    "../etc/ldap/schema",
    "../../etc/openldap/schema",
    "../../etc/ldap/schema",
    "schema",
)
_BUILT_MODULE_FOLDERS = (
    "openldap",
    "../libexec/openldap",
    "../lib/openldap",
    "../lib/ldap",
)

# Ubuntu confines /usr/sbin/slapd, by its path, to the system's own directories.
_APPARMOR_PROFILE = Path("/etc/apparmor.d/usr.sbin.slapd")


@dataclass(frozen=True)
class Programs:
    """slapd and what it loads."""

    slapd: Path
    #: None where there are no modules.
    module_folders: Sequence[Path]
    schema_folder: Path
    #: What `slapd -VVV` says: its version, and what is built in.
    said: str = ""

    @property
    def version(self) -> str:
        return version_line(self.said)

    @property
    def built_in(self) -> frozenset[str]:
        """Back ends and overlays, by their names."""
        return frozenset(re.findall(r"^    (\w+)$", self.said, re.MULTILINE))

    def modules(self, wanted: Sequence[str]) -> list[str]:
        """The lines of slapd.conf that load those of `wanted` that are not built in."""
        missing = (name for name in wanted if name not in self.built_in)
        names = ["back_mdb" if name == "mdb" else name for name in missing]
        for name in names:
            if not any((one / f"{name}.so").exists() for one in self.module_folders):
                folders = [str(folder) for folder in self.module_folders]
                raise ConfigError(
                    f"{str(self.slapd)!r} has no {name}: it is not built in, and no "
                    f"{name}.so is in {folders or 'any folder known'}",
                    hint="configure OpenLDAP with --enable-mdb --enable-syncprov "
                    "--enable-accesslog, or install its modules below its prefix",
                )
        path = ":".join(str(folder) for folder in self.module_folders)
        loads = [f"moduleload {name}" for name in names]
        return [f"modulepath {path}", *loads] if path else loads


def find_programs(binary: Path | None = None) -> Programs:
    """slapd, or what belongs to `binary`; LabError with the package that is missing,
    ConfigError for a bad `binary`."""
    if binary is not None:
        return _programs_of(binary)
    slapd = shutil.which("slapd") or shutil.which(
        "slapd", path=":".join(_PROGRAM_FOLDERS)
    )
    schema_folder = _first_with("core.schema", map(Path, _SCHEMA_FOLDERS))
    if slapd is None or schema_folder is None:
        missing = "slapd" if slapd is None else "slapd's schema files"
        raise LabError(
            f"{missing} cannot be found on this machine",
            hint="install OpenLDAP's server: `apt-get install slapd ldap-utils` on "
            "Debian and Ubuntu; its service need not run",
        )
    module_folder = _first_with("back_mdb.so", map(Path, _MODULE_FOLDERS))
    folders = [] if module_folder is None else [module_folder]
    return Programs(
        Path(slapd),
        folders,
        schema_folder,
        version_answer(Path(slapd), "-VVV", "slapd", "slapd"),
    )


def _programs_of(binary: Path) -> Programs:
    hint = "PREFIX/libexec/slapd, or servers/slapd/slapd of a build tree"
    binary = checked_binary(binary, hint)
    said = version_answer(binary, "-VVV", "slapd", "slapd")
    candidates = [binary.parent / name for name in _BUILT_SCHEMA_FOLDERS]
    schema_folder = _first_with("core.schema", candidates)
    if schema_folder is None:
        raise ConfigError(
            f"no schema files belong to {str(binary)!r}: no core.schema in "
            f"{[os.path.normpath(folder) for folder in candidates]}",
            hint="`make install` puts them below the prefix",
        )
    folders = [binary.parent / name for name in _BUILT_MODULE_FOLDERS]
    # The build tree has each back end and all overlays in folders of libtool's.
    folders += [binary.parent / name for name in ("back-mdb/.libs", "overlays/.libs")]
    existing = {Path(os.path.normpath(one)): None for one in folders if one.is_dir()}
    return Programs(binary, list(existing), schema_folder.resolve(), said)


def _first_with(name: str, folders: Sequence[Path] | map[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / name).exists()), None)


def unconfined(programs: Programs, folder: Path) -> Path:
    """The slapd to run: a copy in `folder` where AppArmor's profile, which is bound to
    the installed path, would confine it."""
    if not _APPARMOR_PROFILE.exists() or programs.slapd != Path("/usr/sbin/slapd"):
        return programs.slapd
    return Path(shutil.copy(programs.slapd, folder / "slapd"))
