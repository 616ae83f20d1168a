# SPDX-License-Identifier: Apache-2.0
"""`bundle`: what installs this ldapslam on a host without a network or a compiler."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path

import click

from ldapslam.base.files import errors_of
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import option
from ldapslam.cli.serve.installed_wheels import closure, tags, write_wheel

#: A platform tag of PyPI's -> the glibc 2.N that it needs.
MANYLINUX = re.compile(r"manylinux_2_(\d+)_")
_OLDER_NAMES = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
#: Installs the others: not every Python has it.
_INSTALLER = "pip"


@command("bundle")
@option(
    "-o --out PATH",
    "The .tar.gz file, or the folder for one.",
    type=click.Path(path_type=Path),
    default=Path(),
)
def bundle_command(out: Path) -> None:
    """Pack this ldapslam for hosts without a network or a compiler.

    In it are wheels of what is installed here, an install.sh and SHA-256 sums: for
    hosts with this version of Python, this kind of processor, and a glibc that
    README.txt names.
    """
    needed = closure("ldapslam", _INSTALLER)
    version = next(one.version for one in needed if one.name == "ldapslam")
    python = "{}.{}".format(*sys.version_info)
    machine = platform.machine()
    if out.is_dir():
        out /= f"ldapslam-{version}-python{python}-{machine}.tar.gz"
    name = out.name.removesuffix(".gz").removesuffix(".tar")
    values = {
        "VERSION": version,
        "PYTHON": python,
        "MACHINE": machine,
        "GLIBC": f"2.{max(map(_glibc, needed))}",
        "NATIVE": ", ".join(one.name for one in needed if _is_native(one)) or "none",
    }
    say(f"packing {len(needed)} wheels for Python {python} on {machine}")
    with tempfile.TemporaryDirectory(prefix="ldapslam-") as scratch:
        folder = Path(scratch)
        (folder / "wheels").mkdir()
        for one in needed:
            write_wheel(one, folder / "wheels")
        _write_texts(folder, values)
        with errors_of(out):
            digest = _pack(folder, name, out)
    document = {"file": str(out), "sha256": digest, "wheels": len(needed)}
    put_result(document, [f"{digest}  {out}"])


def _is_native(one: Distribution) -> bool:
    """Was its wheel built for one host, with that host's libraries?"""
    return any(tag.platform.startswith("linux_") for tag in tags(one))


def _glibc(one: Distribution) -> int:
    """The N of the glibc 2.N that a distribution's wheel needs."""
    if _is_native(one):
        return int(platform.libc_ver()[1].rpartition(".")[2])
    found = [
        int(match[1])
        for match in (MANYLINUX.match(tag.platform) for tag in tags(one))
        if match
    ] + [
        _OLDER_NAMES[name]
        for name in (tag.platform.partition("_")[0] for tag in tags(one))
        if name in _OLDER_NAMES
    ]
    return min(found, default=0)


def _write_texts(folder: Path, values: Mapping[str, str]) -> None:
    """README.txt, install.sh, and the sums of everything."""
    templates = importlib.resources.files("ldapslam.configs") / "deploy" / "bundle"
    for name in ("README.txt", "install.sh"):
        text = (templates / name).read_text("utf-8")
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        (folder / name).write_text(text, "utf-8")
    (folder / "install.sh").chmod(0o755)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = [f"{sha256_of(path)}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums))


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pack(folder: Path, name: str, out: Path) -> str:
    """Write the archive, whole or not at all; its SHA-256. The same files are the same
    archive."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    aside = out.with_name(f".{out.name}.new")
    try:
        with (
            aside.open("wb") as file,
            gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(folder, name, recursive=False, filter=plain)
            for path in sorted(folder.rglob("*")):
                member = f"{name}/{path.relative_to(folder)}"
                archive.add(path, member, recursive=False, filter=plain)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
    return sha256_of(out)
