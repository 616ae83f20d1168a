# SPDX-License-Identifier: Apache-2.0
"""What is installed here, as the wheels that it was installed from.

A distribution's RECORD lists its files with their digests, so the wheel can be made of
them once more: no index, no compiler, and exactly what runs here runs elsewhere. Left
out is what an installation adds: pip's notes, bytecode, scripts of entry points.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from ldapslam.base.errors import ConfigError
from ldapslam.base.inert import parse_json

#: What an installer writes itself, beside METADATA.
_NOTES = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}


def closure(*names: str) -> list[Distribution]:
    """The distributions of these names and all that they need to run, by name.
    ConfigError."""
    pending = [(name, set[str]()) for name in names]
    found: dict[str, tuple[Distribution, set[str]]] = {}
    while pending:
        name, extras = pending.pop()
        key = canonicalize_name(name)
        if key in found and extras <= found[key][1]:
            continue
        one = _distribution(name)
        found[key] = one, extras | (found[key][1] if key in found else set())
        pending += [(need.name, need.extras) for need in _needs(one, extras)]
    return [found[key][0] for key in sorted(found)]


def _distribution(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise ConfigError(
            f"{name} is not installed", hint=f"{sys.executable} -m pip install {name}"
        ) from error


def _needs(one: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    for need in map(Requirement, one.requires or ()):
        marker = need.marker
        if not marker or any(marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield need


def tags(one: Distribution) -> frozenset[Tag]:
    """The tags of a distribution's wheel. ConfigError: it is not out of a wheel."""
    lines = (one.read_text("WHEEL") or "").splitlines()
    found = frozenset(
        tag
        for line in lines
        if line.startswith("Tag: ")
        for tag in parse_tag(line.removeprefix("Tag: ").strip())
    )
    source = parse_json(one.read_text("direct_url.json") or "{}")
    if source.get("dir_info", {}).get("editable"):
        raise ConfigError(
            f"{one.name} is installed as an editable checkout: its files are elsewhere",
            hint=f"`make bundle` in {source['url'].removeprefix('file://')} makes one",
        )
    if not found or one.files is None:
        raise _no_wheel(f"{one.name} was not installed from a wheel")
    return found


def _no_wheel(why: str) -> ConfigError:
    return ConfigError(
        why, hint="install ldapslam with pip into a virtual environment of its own"
    )


def write_wheel(one: Distribution, folder: Path) -> Path:
    """Write a distribution's wheel into `folder`. ConfigError: its files changed."""
    stem, parts = _stem(one), tags(one)
    tag = "-".join(
        ".".join(sorted({getattr(tag, part) for tag in parts}))
        for part in ("interpreter", "abi", "platform")
    )
    path = folder / f"{stem}-{tag}.whl"
    rows: list[tuple[str, str, int | str]] = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content, mode in sorted(_files(one, stem)):
            rows.append((name, f"sha256={_digest(content)}", len(content)))
            wheel.writestr(_entry(name, mode), content)
        record = f"{stem}.dist-info/RECORD"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        wheel.writestr(_entry(record, 0o644), text.getvalue())
    return path


def _stem(one: Distribution) -> str:
    """NAME-VERSION, as the wheel wrote them."""
    return next(
        file.parts[0].removesuffix(".dist-info")
        for file in one.files or ()
        if file.parts[0].endswith(".dist-info")
    )


def _files(one: Distribution, stem: str) -> Iterator[tuple[str, bytes, int]]:
    """Name in the wheel, content, mode."""
    scripts = {
        entry.name
        for entry in one.entry_points
        if entry.group in ("console_scripts", "gui_scripts")
    }
    for file in one.files or ():
        path = Path(os.path.normpath(str(one.locate_file(file))))
        if file.suffix == ".pyc" or (
            file.parts[0] == f"{stem}.dist-info" and file.name in _NOTES
        ):
            continue
        name = PurePosixPath(file)
        is_script = False
        if name.parts[0] == "..":
            # below the environment: scripts, and data such as manual pages
            if not path.is_relative_to(sys.prefix):  # pip's --user
                raise _no_wheel(f"{path}, of {one.name}, is outside {sys.prefix}")
            name = PurePosixPath(path.relative_to(sys.prefix))
            is_script = name.parts[0] == "bin"
            if is_script and name.name in scripts:
                continue
            name = f"{stem}.data" / (
                PurePosixPath("scripts", name.name) if is_script else "data" / name
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _changed(one, path, error.strerror or str(error)) from error
        if file.hash and file.hash.value != _digest(content, file.hash.mode):
            raise _changed(one, path, "not what was installed")
        if is_script:  # an installer writes its own Python there
            content = re.sub(rb"\A#!.*/python[\d.]*$", b"#!python", content, flags=re.M)
        yield str(name), content, path.stat().st_mode & 0o777


def _changed(one: Distribution, path: Path, how: str) -> ConfigError:
    return ConfigError(
        f"{path}, of {one.name}: {how}",
        hint=f"install {one.name} {one.version} again, with pip's --force-reinstall",
    )


def _digest(content: bytes, algorithm: str = "sha256") -> str:
    digest = hashlib.new(algorithm, content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # of 1980: the same files are the same wheel
    entry.external_attr = (0o100000 | mode) << 16
    return entry
