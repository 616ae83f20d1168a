# SPDX-License-Identifier: Apache-2.0
"""Where runs are: at a coordinator, in a store, or in the folders of `ldapslam run`.

--coordinator or its variable, --store or --local says where. Without them it is the
folders if they have runs, else the coordinator of this host if one listens. The
folder of a run says itself where its run is, and so does the id of one in those
folders.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ldapslam.base.address import split_host_port
from ldapslam.base.errors import AmbiguousRun, ConfigError, LdapSlamError, RunNotFound
from ldapslam.cli.client import Client, completed_by
from ldapslam.cli.console import say
from ldapslam.cli.options import (
    DEFAULT_COORDINATOR,
    RUNS_FOLDER,
    SOCKET_NAME,
    STORE_NAME,
    Command,
    Decorator,
    add_options,
    flag,
    grouped,
    option,
)
from ldapslam.cli.outcome import fetched_store
from ldapslam.cli.security import client_options
from ldapslam.proto import operator_pb2 as pb

if TYPE_CHECKING:
    from ldapslam.results.store import Store

LATEST = "latest"
_UNFINISHED = "unfinished-"
_PROBE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command looks for runs, as its options say."""

    coordinator: str = DEFAULT_COORDINATOR
    #: --coordinator was given.
    is_named: bool = False
    #: Or its variable is set.
    is_configured: bool = False
    store: str | None = None
    local: bool = False

    def __post_init__(self) -> None:
        given = {
            "--store": self.store is not None,
            "--local": self.local,
            "--coordinator": self.is_named,
        }
        if sum(given.values()) > 1:
            names = " and ".join(name for name, is_given in given.items() if is_given)
            raise ConfigError(
                f"{names} name different places of runs", hint="give one of them"
            )

    @property
    def is_folders(self) -> bool:
        """Whether it is the folders of `ldapslam run`: unless another place is named,
        those that are here, else the coordinator that listens on this host."""
        if self.local or self.store is not None or self.is_configured:
            return self.local
        return _has_local_runs() or not _listens(self.coordinator)


def runs_options(command: Command) -> Command:
    """The options that say where runs are, as `place`, and --json."""

    @functools.wraps(command)
    def with_place(
        *arguments: Any,
        coordinator: str,
        store: str | None,
        local: bool,
        **given: Any,
    ) -> Any:
        context = click.get_current_context()
        source = context.get_parameter_source("coordinator")
        place = Place(
            coordinator,
            source is ParameterSource.COMMANDLINE,
            source is not ParameterSource.DEFAULT,
            store,
            local,
        )
        return command(*arguments, place=place, **given)

    return add_options(
        grouped(
            "Where the run is",
            flag("--local", f"Runs of `ldapslam run`, in {RUNS_FOLDER}."),
            option("--store URL", "Runs of a store: its file, URL, or a run's folder."),
        ),
        client_options,
    )(with_place)  # type: ignore[return-value]


_of_coordinator = completed_by(lambda client: [one.run_id for one in client.runs(50)])


def complete_run(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """For the shell's completion: runs of this folder, and of a coordinator."""
    local = [run_id for run_id, _ in _local_runs()]
    others = _of_coordinator(context, parameter, incomplete)
    names = dict.fromkeys((LATEST, *local, *others))
    return [name for name in names if name.startswith(incomplete)]


def run_argument_of(**settings: Any) -> Decorator:
    """RUN: an id, the beginning of one, `latest`, or the folder of a run."""
    metavar = "[RUN]" if "default" in settings else "RUN"
    return click.argument(
        "run_id", metavar=metavar, shell_complete=complete_run, **settings
    )


run_argument = run_argument_of()


def statuses(place: Place, limit: int) -> list[pb.RunStatus]:
    """The newest runs, newest first; 0 is all."""
    if place.store is not None:
        return _stored(place.store, limit)
    if not place.is_folders:
        with Client(place.coordinator) as client:
            return client.runs(limit)
    found: list[pb.RunStatus] = []
    for _, folder in islice(_local_runs(), limit or None):
        try:
            with _asked(folder) as client:
                found += _stored(folder, 1) if client is None else client.runs(1)
        except LdapSlamError as error:
            say(f"{folder} is left out: {error}")
    if found and not place.local and _listens(place.coordinator):
        say(
            f"runs of {RUNS_FOLDER} in this folder; --coordinator {place.coordinator} "
            "shows those of the coordinator there"
        )
    return found


def status(place: Place, run: str) -> pb.RunStatus:
    """One run."""
    from ldapslam.coordinator.runs.status import stored_status

    with asked(place, run) as (client, name, folder):
        if client is not None:
            return client.run(name)
    where = run if folder is None else str(folder)
    with store_of(where, place) as (results, run_id, _):
        return stored_status(results.run(run_id), results.events(run_id))


@contextlib.contextmanager
def asked(place: Place, run: str) -> Iterator[tuple[Client | None, str, Path | None]]:
    """Who can be asked about a run, what to ask for, and the run's folder if it has
    one. That is its coordinator, also of a local run that is under way; None: nobody,
    the store has all."""
    folder = folder_of(run, place)
    if folder is not None:
        with _asked(folder) as client:
            yield client, LATEST, folder
    elif place.store is not None:
        yield None, run, None
    else:
        with Client(place.coordinator) as client:
            yield client, run, None


@contextlib.contextmanager
def store_of(run: str, place: Place) -> Iterator[tuple[Store, str, Path | None]]:
    """The store that has the run, the run's full id, and its folder if it has one."""
    folder = folder_of(run, place)
    where = place.store or folder
    if where is None:
        with Client(place.coordinator) as client:
            full_id = client.run(run).run_id
            with fetched_store(client, full_id) as results:
                yield results, full_id, None
        return
    with _opened(where) as results:
        yield results, _only(results, folder) if folder else _find(results, run), folder


def _only(store: Store, folder: Path) -> str:
    """The run that a folder is of; that of a gate has many, and none is meant more."""
    runs = store.runs()
    if len(runs) < 2:
        return _find(store, LATEST)
    where = folder / STORE_NAME
    raise ConfigError(
        f"{str(folder)!r} is no folder of a run: it has {len(runs)} runs",
        hint=f"name the id of one, or of several with commas between, and --store "
        f"{where}: `ldapslam list --store {where}` shows them, as does the table of "
        "runs of a gate or a study",
    )


def folder_of(run: str, place: Place) -> Path | None:
    """The folder that the run has; None: `place` has to be asked."""
    if (Path(run) / STORE_NAME).is_file():
        return Path(run)
    if "/" in run:
        raise RunNotFound(
            run,
            hint=f"there is no {STORE_NAME} in that folder: name one that `ldapslam "
            "run` or `ldapslam report` has written",
        )
    if place.store is not None or place.is_named:
        return None
    # an id tells which run is meant, whatever coordinator a variable names
    if run != LATEST and (folder := _named(run)):
        return folder
    if not place.is_folders:
        if run == LATEST:
            say(f"the latest run of the coordinator at {place.coordinator}")
        return None
    if run == LATEST:
        for _, folder in _local_runs():
            say(f"the latest run here: {folder}")
            return folder
    elif not place.local and _listens(place.coordinator):
        return None
    raise RunNotFound(run, hint=_where(run, place))


def _where(run: str, place: Place) -> str:
    meant = difflib.get_close_matches(run, (LATEST, "last", "newest"), 1)
    if meant and run != LATEST:
        return f"did you mean `{LATEST}`?"
    other = (
        "" if place.local else f", and no coordinator listens at {place.coordinator}"
    )
    return (
        f"`ldapslam list` shows the runs of {RUNS_FOLDER} in this folder{other}: "
        "--coordinator names one, and RUN may be the folder of a run"
    )


def _has_local_runs() -> bool:
    return next(RUNS_FOLDER.glob(f"*/{STORE_NAME}"), None) is not None


def _local_runs() -> list[tuple[str, Path]]:
    """Ids and folders of the runs of `ldapslam run`, newest first: ids begin with the
    time, and a folder gets its run's id when that has ended."""
    found: dict[str, Path] = {}
    for path in RUNS_FOLDER.glob(f"*/{STORE_NAME}"):
        folder = path.parent
        if folder.name[0].isdigit():
            # another run may have results where a link's were
            if not folder.is_symlink() or _id_in(folder) == folder.name:
                found[folder.name] = folder
        # that of a killed run keeps this name, and newer runs follow
        elif folder.name.startswith(_UNFINISHED) and (run_id := _id_in(folder)):
            found.setdefault(run_id, folder)
    return sorted(found.items(), reverse=True)


def _id_in(folder: Path) -> str:
    with contextlib.suppress(LdapSlamError), _opened(folder) as one:
        return next((run.run_id for run in one.runs(1)), "")
    return ""


def _named(run: str) -> Path | None:
    """Return the folder of the only local run with an id that begins with `run`."""
    found = {name: folder for name, folder in _local_runs() if name.startswith(run)}
    if len(found) > 1 and run not in found:
        raise AmbiguousRun(run, list(found))
    return found.get(run) or next(iter(found.values()), None)


@contextlib.contextmanager
def _asked(folder: Path) -> Iterator[Client | None]:
    """The coordinator of a local run that is under way."""
    address = folder / SOCKET_NAME
    path = address.resolve()
    with socket.socket(socket.AF_UNIX) as probe:
        if not address.is_symlink() or probe.connect_ex(str(path)):
            yield None
            return
    with Client(f"unix:{path}") as client:
        yield client


def _stored(url: str | Path, limit: int) -> list[pb.RunStatus]:
    from ldapslam.coordinator.runs.status import stored_status

    with _opened(url) as store:
        return [stored_status(run) for run in store.runs(limit)]


def _opened(url: str | Path) -> Store:
    # what asks a coordinator alone need not wait until SQLAlchemy is loaded
    from ldapslam.results.store import Store

    return Store.open(url, read_only=True)


def _find(store: Store, run: str) -> str:
    if run != LATEST:
        return store.run(run).run_id
    runs = store.runs(1)
    if not runs:
        raise RunNotFound(run, hint="this store has no runs yet")
    return runs[0].run_id


def _listens(address: str) -> bool:
    try:
        socket.create_connection(split_host_port(address), _PROBE_TIMEOUT_S).close()
    except OSError:
        return False
    return True
