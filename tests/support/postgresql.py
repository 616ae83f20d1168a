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
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=_version)
    folder = Path(tempfile.mkdtemp(prefix="slam-pg-"))
    as_user: list[str] = []
    name = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        name = _USER
        user = pwd.getpwnam(name)
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups"]

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=60)

    data, log = folder / "data", folder / "log"
    try:
        run("initdb", "-D", str(data), "--auth=trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        run("pg_ctl", "-D", str(data), "-l", str(log), "-w", "-o", options, "start")
        try:
            yield f"postgresql://{name}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
