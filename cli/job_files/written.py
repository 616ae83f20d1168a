# SPDX-License-Identifier: Apache-2.0
"""Writes the files of a new job: the job file and the files that it names.

Only their owner may read them: they have names of people.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import write_private
from ldapslam.cli.console import put_result, put_text


def job_name(output: Path | None, default: str) -> str:
    """Return the name of the job: that of its file, in characters that a name has."""
    if output is None:
        return default
    return (
        "".join(c if c.isalnum() and c.isascii() else "-" for c in output.stem).strip(
            "-"
        )
        or default
    )


def write_job(output: Path | None, text: str, files: Mapping[str, bytes]) -> None:
    """Write the job file, or put it on stdout, and the files to the same folder;
    ConfigError where a file is there."""
    folder = Path() if output is None else output.parent
    paths = [folder / name for name in files] + ([] if output is None else [output])
    for path in paths:
        if path.exists():
            raise ConfigError(
                f"the file {str(path)!r} is there already",
                hint="remove it, or name another file with -o",
            )
    for name, content in files.items():
        write_private(folder / name, content)
    if output is None:
        put_text(text)
    else:
        write_private(output, text.encode())
        put_result({"files": [str(output), *map(str, paths[:-1])]}, [str(output)])
