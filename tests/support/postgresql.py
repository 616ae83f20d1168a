# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of its own, on a Unix socket in a folder of its own.

It refuses to run as root: where the tests do, it runs as the user of Debian's package.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

_USER = "postgres"


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty database; the server ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="slam-pg-"))
    name = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        name = _USER
        user = pwd.getpwnam(name)
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        _run(folder, "initdb", "--auth=trust", "-E", "UTF8", "--no-sync")
        _start(folder)
        try:
            yield f"postgresql://{name}@/postgres?host={folder}"
        finally:
            _stop(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """Within, the server of the URL is stopped, as by a crash."""
    folder = Path(url.partition("?host=")[2])
    _stop(folder)
    try:
        yield
    finally:
        _start(folder)


def _start(folder: Path) -> None:
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    _run(folder, "pg_ctl", "-l", str(folder / "log"), "-w", "-o", options, "start")


def _stop(folder: Path) -> None:
    _run(folder, "pg_ctl", "-m", "immediate", "-w", "stop")


def _run(folder: Path, program: str, *arguments: str) -> None:
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=_version)
    command = [str(programs / program), "-D", str(folder / "data"), *arguments]
    if os.getuid() == 0:
        as_user = ("setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups")
        command = [*as_user, *command]
    subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=60)


#: application_name of what `execute` does: two of them may be at it at a time.
_ADMINISTRATOR = "administrator"


def _version(folder: Path) -> int:
    return int(folder.parent.name)


def execute(url: str, statement: str) -> list[sa.Row[tuple[object, ...]]]:
    """As an administrator does it."""
    engine = sa.create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"),
        connect_args={"application_name": _ADMINISTRATOR},
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        found = connection.execute(sa.text(statement))
        rows = list(found.all()) if found.returns_rows else []
    engine.dispose()
    return rows


def lock_writes(url: str) -> Callable[[], None]:
    """A coordinator's writes wait until the answer is called: each looks at its claim
    first."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    connection = engine.connect()
    connection.execute(sa.text("LOCK TABLE claim IN EXCLUSIVE MODE"))

    def unlock() -> None:
        connection.invalidate()  # its server's side may have been ended
        engine.dispose()

    return unlock


def end_backends(url: str, where: str = "true") -> int:
    """Ends the server's side of connections, but for administrators'; how many."""
    statement = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' "
        f"AND application_name <> '{_ADMINISTRATOR}' AND {where}"
    )
    return len(execute(url, statement))
