# SPDX-License-Identifier: Apache-2.0
"""`run --cleanup`: remove the entries that a run left, here and now.

Runs remove what they added. A run that was killed left ledgers in its agents' spools;
this goes on from there, and may be repeated: entries that are gone are skipped.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ldapslam.agent.ledgers.cleanup import CleanUpReport, clean_up
from ldapslam.agent.ledgers.folder import FOLDER, folders_left, locked, run_folder
from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.files import state_folder
from ldapslam.cli.console import say
from ldapslam.cli.measure.local_fleet import SPOOLS

Write = Callable[[str], None]

_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


def clean_up_run(
    run: str, spool: Path | None, runs_folder: Path, write: Write
) -> ExitCode:
    """Remove what run `run` left (its id, or the folder of its results); the result
    goes to `write`."""
    folders = _find(run, spool, runs_folder)
    if not folders:
        # a mistyped id has left nothing anywhere
        if not _RUN_ID.fullmatch(Path(run).name) and not Path(run).is_dir():
            raise ConfigError(
                f"expected the id of a run, or the folder of its results, got {run!r}",
                hint="the whole id, such as 20261231-235959-0f40ba",
            )
        where = spool if spool is not None else f"{runs_folder} and the user's spools"
        write(f"run {run}: no entries are left, as far as can be seen in {where}")
        return ExitCode.PASS
    return max(_clean(folder, write) for folder in folders)


def _find(run: str, spool: Path | None, runs_folder: Path) -> list[Path]:
    if spool is not None:
        folder = run_folder(spool, Path(run).name)
        return [folder] if folder in folders_left(spool) else []
    results = Path(run)
    if (results / SPOOLS).is_dir():
        return _left_in(results / SPOOLS)
    name = results.name
    spools = [*runs_folder.glob(f"*/{SPOOLS}/*"), *state_folder().glob("spool/*")]
    return [
        folder
        for agent in spools
        for folder in folders_left(agent)
        if folder.name == name
    ]


def _clean(folder: Path, write: Write) -> ExitCode:
    name = folder.name
    say(f"run {name}: removing what is in {folder}")
    with locked(folder):
        report = clean_up(
            folder,
            lambda left: say(f"{left:,} entries to go"),
            resolve_anew=True,
        )
    for line in _lines(name, report, folder):
        write(line)
    if not report.left:
        _remove_empty(folder)
        return ExitCode.PASS
    return ExitCode.TARGET if report.error else ExitCode.FAIL


def _lines(name: str, report: CleanUpReport, folder: Path) -> list[str]:
    counts = f"{report.deleted:,} deleted, {report.already_gone:,} were not there"
    lines = [f"run {name}: {report.entries:,} entries: {counts}, {report.left:,} left"]
    lines += [f"  left: {one['dn']}: {one['reason']}" for one in report.named]
    if report.left > len(report.named):
        lines.append(f"  … and {report.left - len(report.named):,} more in {folder}")
    return lines


def _remove_empty(folder: Path) -> None:
    """The folders above, of a fleet that was killed; not an agent's own spool."""
    if folder.parent.name == FOLDER and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


@contextlib.contextmanager
def rest_removed(spools: Path) -> Iterator[None]:
    """Within, a local fleet runs; afterwards what its agents left is removed. After an
    error it is only named."""
    try:
        yield
    except BaseException:
        if _left_in(spools):
            command = f"ldapslam run --cleanup {spools.parent}"
            say(f"entries are left: `{command}` removes them")
        raise
    codes = [_clean(folder, say) for folder in _left_in(spools)]
    if all(code is ExitCode.PASS for code in codes):
        shutil.rmtree(spools, ignore_errors=True)
    else:
        say("`ldapslam run --cleanup RUN` tries again")


def _left_in(spools: Path) -> list[Path]:
    if not spools.is_dir():
        return []
    return [folder for spool in spools.iterdir() for folder in folders_left(spool)]
