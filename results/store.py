# SPDX-License-Identifier: Apache-2.0
"""The results store: runs and their intervals, in SQLite or PostgreSQL.

One Store may be used from several threads: calls are serialised. A SQLite store is one
file in WAL mode with full synchronisation, because an agent forgets what the store has
acknowledged. Nothing here interprets results; reading streams over intervals in windows
so that a run of days needs no more memory than a run of minutes. A run travels as a
SQLite file that holds it alone (`export_run`), as a run's folder has it.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
)
from sqlalchemy.pool import StaticPool

from ldapslam.base.errors import (
    AmbiguousRun,
    NoStore,
    OtherSchema,
    RunNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreTaken,
)
from ldapslam.results import intervals, parts, rows, schema
from ldapslam.results.facts import AgentFacts, Manifest
from ldapslam.results.records import (
    FINAL_STATES,
    NO_PART,
    ClockRow,
    ClockSample,
    Digest,
    EventRecord,
    IntervalRecord,
    OpenRun,
    Part,
    RunRecord,
    SubmissionRecord,
    Taken,
)


@dataclass(slots=True)
class WriteLog:
    """Of one Store since it was opened."""

    #: Transactions that were to write: those committed, and those that failed.
    commits: int = 0
    failures: int = 0
    #: From begin to the end of the commit, waiting for other writers included.
    total_s: float = 0.0
    last_s: float = 0.0
    #: CLOCK_MONOTONIC of the last commit; None before the first.
    committed_s: float | None = None
    #: Why the last write failed; None when it was committed.
    failure: str | None = None

    def note_commit(self, took_s: float) -> None:
        self.commits += 1
        self.total_s += took_s
        self.last_s = took_s
        self.committed_s = time.monotonic()
        self.failure = None

    def note_failure(self, why: str) -> None:
        self.failures += 1
        self.failure = why


#: File name of a run's store within its folder.
FOLDER_STORE = "results.sqlite"

_BUSY_TIMEOUT_S = 10.0
_CHUNK_BYTES = 1 << 20
_COPY_ROWS = 500
#: SQLite's shared memory cannot grow with less.
_LEAST_FREE_BYTES = 1 << 20
#: Advisory lock of the coordinator that owns a server's database.
_CLAIM_KEY = 0x51AD
_WRITES = "ldapslam_writes"


class Store:
    """Use `Store.open`; close it, or use it as a context manager."""

    def __init__(self, engine: Engine, url: str, path: Path | None) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        #: Holds the lock that keeps other owners out.
        self._claim: Connection | None = None
        self._owner = ""
        #: Of the claim; 0: there is none, and nobody is asked.
        self._token = 0
        #: Of `together`, while it lasts.
        self._shared: Connection | None = None
        #: For messages: without a password.
        self.url = url
        #: The file; None when the store is none.
        self.path = path
        #: Its identity, once it is claimed.
        self.store_id = ""
        #: How the writing goes.
        self.writes = WriteLog()
        #: Of a file that is read without a lock, as nobody writes to it: its state.
        self._settled: tuple[int, int] | None = None

    @classmethod
    def open(cls, url: str | Path, *, read_only: bool = False) -> Store:
        """Opens a store by URL, by file, or by the folder of a run.

        Creates what does not exist, unless `read_only`.
        """
        address = _address(url)
        shown = address.render_as_string(hide_password=True)
        path, settled = None, None
        if address.get_backend_name() == "sqlite":
            if address.database and address.database != ":memory:":
                path = Path(address.database).resolve()
                if read_only:
                    settled = _settled(path)
            engine = _sqlite_engine(path, shown, read_only, settled is not None)
        else:
            engine = _server_engine(address, shown)
        store = cls(engine, shown, path)
        store._settled = settled
        try:
            with store.transaction(writes=not read_only) as connection:
                _check_revision(connection, shown, may_create=not read_only)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        with self._lock:
            if self._claim is not None:
                self._claim.close()
            self._engine.dispose()

    def claim(self, owner: str) -> str | None:
        """Own it until closed: what an earlier owner still writes is refused with
        StoreTaken. The other owner, where a server's database has one that is alive."""
        if self._engine.dialect.name == "postgresql":
            other = self._lock_out_others(owner)
            if other is not None:
                return other
        table = schema.claim
        with self.transaction(writes=True) as connection:
            known = connection.execute(sa.select(table)).first()
            store_id, token = uuid.uuid4().hex, 1
            if known is not None:
                store_id, token = known.store_id, known.token + 1
                connection.execute(table.delete())
            row = {"store_id": store_id, "token": token, "owner": owner}
            connection.execute(table.insert(), row)
        self.store_id, self._token, self._owner = store_id, token, owner
        return None

    def keep_claim(self) -> None:
        """Take the lock that keeps others out again if the server has dropped it.
        StoreTaken when another owner was quicker."""
        if not self._token or self._engine.dialect.name != "postgresql":
            return
        if self._claim is not None:
            try:
                self._claim.execute(sa.select(1))
                return
            except DBAPIError:
                # not back to the others: it may still hold the lock
                self._claim.invalidate()
                self._claim.close()
                self._claim = None
        # held by another: that may be our own session, whose end the server has not
        # noticed; who owns the store, the token says
        self._lock_out_others(self._owner)
        with self.transaction(writes=True):
            pass

    def _lock_out_others(self, owner: str) -> str | None:
        """An advisory lock, which ends with its connection; who else holds it."""
        try:
            connection = self._engine.connect()
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            if connection.scalar(sa.select(sa.func.pg_try_advisory_lock(_CLAIM_KEY))):
                # what another one is told
                name = sa.func.set_config("application_name", owner, False)
                connection.execute(sa.select(name))
                self._claim = connection
                return None
            with connection:
                return connection.scalar(_CLAIMANT) or "another process"
        except DBAPIError as error:
            raise self._store_error(error) from error

    def _check_claim(self, connection: Connection) -> None:
        """Within a transaction that writes: until its end the owner stays the same."""
        table = schema.claim
        query = sa.select(table.c.token, table.c.owner).with_for_update(read=True)
        row = connection.execute(query).first()
        if row is None or row.token != self._token:
            raise StoreTaken(self.url, "unknown" if row is None else row.owner)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Runs

    def create_run(
        self, record: RunRecord, submission: SubmissionRecord | None = None
    ) -> bool:
        """Keep a run, and what it was made of: both or neither. False: it is there
        already, as after a commit whose answer was lost; StoreRefused where another
        run has its id."""
        table = schema.run
        with self.transaction(writes=True) as connection:
            # waits for a transaction of a lost connection that has inserted it
            if not rows.add_new(connection, table, [rows.run_row(record)]):
                query = sa.select(table.c.job_hash, table.c.schedule_id)
                query = query.where(table.c.run_id == record.run_id)
                known = tuple(connection.execute(query).one())
                if known != (record.job_hash, record.schedule_id):
                    raise StoreRefused(
                        f"store {self.url!r}: there is another run {record.run_id!r}"
                    )
                return False
            if submission is not None:
                row = {"run_id": record.run_id, **asdict(submission)}
                connection.execute(schema.submission.insert(), row)
        return True

    def withdraw_run(self, run_id: str) -> None:
        """Remove a run of which its submitter was told that it was not kept."""
        run = schema.run
        with self.transaction(writes=True) as connection:
            connection.execute(run.delete().where(run.c.run_id == run_id))

    def set_run_state(
        self,
        run_id: str,
        state: str,
        detail: str = "",
        *,
        t0_utc: str | None = None,
        started_utc: str | None = None,
        finished_utc: str | None = None,
    ) -> None:
        """Sets the state; of the times, those that are given. A final state stays: what
        a full store took late must not undo it."""
        values = {
            "state": state,
            "state_detail": detail,
            "t0_utc": t0_utc,
            "started_utc": started_utc,
            "finished_utc": finished_utc,
        }
        if state not in FINAL_STATES and self.run(run_id).state in FINAL_STATES:
            return
        given = {name: value for name, value in values.items() if value is not None}
        self._update_run(run_id, given)

    def set_verdict(
        self,
        run_id: str,
        verdict: str | None,
        digest: Digest | None = None,
        *,
        unjudged: int | None = None,
    ) -> None:
        """PASS, FAIL or INVALID, once the run has ended, with the digest of what it is
        of. `unjudged`: the run's, before what judged it began to read; None: it has
        read all there is."""
        left = 0 if unjudged is None else schema.run.c.unjudged - unjudged
        kept = digest and dict(digest)
        values = {"verdict": verdict, "digest": kept, "unjudged": left}
        self._update_run(run_id, values)

    def set_run_agents(self, run_id: str, agents: Iterable[str]) -> None:
        """Names the planned agents, once the fleet has chosen them."""
        self._update_run(run_id, {"agents": list(agents)})

    def set_manifest(self, run_id: str, facts: Manifest) -> None:
        """Put the facts that are set into the run's manifest."""
        with self.transaction(writes=True) as connection:
            row = connection.execute(
                sa.select(schema.run.c.manifest).where(schema.run.c.run_id == run_id)
            ).first()
            if row is None:
                raise RunNotFound(run_id)
            connection.execute(
                schema.run.update().where(schema.run.c.run_id == run_id),
                {"manifest": {**row[0], **facts.document()}},
            )

    def runs(
        self,
        limit: int = 0,
        *,
        states: Collection[str] | None = None,
        only_unjudged: bool = False,
    ) -> list[RunRecord]:
        """The newest runs, the latest submitted first; limit 0: all of them.

        Their job text is empty; plans have only `phases`, manifests only `failure`.
        """
        table = schema.run.c
        query = sa.select(*rows.brief_columns())
        query = query.order_by(table.submitted_utc.desc(), table.run_id.desc())
        if states is not None:
            query = query.where(table.state.in_(list(states)))
        if only_unjudged:
            query = query.where(table.unjudged > 0)
        if limit:
            query = query.limit(limit)
        with self.transaction() as connection:
            return [rows.brief_record(row) for row in connection.execute(query)]

    def open_runs(self) -> list[OpenRun]:
        """The runs that have not ended, the first submitted first."""
        run, table = schema.run, schema.submission
        query = sa.select(run).where(run.c.state.not_in(FINAL_STATES))
        query = query.order_by(run.c.submitted_utc, run.c.run_id)
        with self.transaction() as connection:
            records = [rows.run_record(row) for row in connection.execute(query)]
            ids = [record.run_id for record in records]
            made_of = sa.select(table).where(table.c.run_id.in_(ids))
            found = {
                row.run_id: SubmissionRecord(row.request, row.after_run)
                for row in connection.execute(made_of)
            }
        return [
            OpenRun(
                one,
                found.get(one.run_id),
                self.agents(one.run_id),
                {name: self.part(one.run_id, name) for name in one.agents},
            )
            for one in records
        ]

    def forget_submission(self, run_id: str) -> None:
        """The run has ended: its job's files, which may be large, are not kept."""
        table = schema.submission
        with self.transaction(writes=True) as connection:
            connection.execute(table.delete().where(table.c.run_id == run_id))

    def run(self, run_id: str) -> RunRecord:
        """The run of this id, or the only run whose id begins so."""
        column = schema.run.c.run_id
        with self.transaction() as connection:
            exact = sa.select(schema.run).where(column == run_id)
            found = connection.execute(exact).all()
            if not found and run_id:
                prefix = column.startswith(run_id, autoescape=True)
                query = sa.select(schema.run).where(prefix).order_by(column)
                found = connection.execute(query).all()
        if not found:
            raise RunNotFound(run_id)
        if len(found) > 1:
            raise AmbiguousRun(run_id, [row.run_id for row in found])
        return rows.run_record(found[0])

    # Agents and events

    def put_agent(
        self,
        run_id: str,
        agent: str,
        facts: AgentFacts,
        part: Part | None = None,
    ) -> None:
        """Put the facts that are set into an agent's facts of a run; with `part` a new
        part of it begins."""
        table = schema.run_agent
        columns = part._asdict() if part else {}
        key = sa.and_(table.c.run_id == run_id, table.c.agent == agent)
        with self.transaction(writes=True) as connection:
            rows.require_run(connection, run_id)
            if part is not None:
                intervals.forget_collected(connection, run_id)
            row = connection.execute(sa.select(table.c.facts).where(key)).first()
            if row is None:
                values = {"run_id": run_id, "agent": agent, "facts": facts.document()}
                connection.execute(table.insert(), {**values, **columns})
            else:
                merged = {"facts": {**row[0], **facts.document()}, **columns}
                connection.execute(table.update().where(key), merged)

    def part(self, run_id: str, agent: str) -> Part:
        """The agent's part of a run, which it may not have; RunNotFound."""
        key = run_id, agent
        with self.transaction() as connection:
            return parts.parts(connection, [key]).get(key, NO_PART)

    def seal_part(self, run_id: str, agent: str, attempt: int) -> bool:
        """The agent has said its last word: no report of this part follows. False: that
        was known, or it is of another attempt."""
        table = schema.run_agent
        query = table.update().where(
            table.c.run_id == run_id,
            table.c.agent == agent,
            table.c.attempt == attempt,
            table.c.is_sealed.is_(False),
        )
        with self.transaction(writes=True) as connection:
            is_new = connection.execute(query.values(is_sealed=True)).rowcount > 0
            if is_new:
                rows.note_addition(connection, [run_id])
            return is_new

    def agents(self, run_id: str) -> dict[str, AgentFacts]:
        """The facts of the run's agents, by name."""
        table = schema.run_agent
        query = sa.select(table.c.agent, table.c.facts).where(table.c.run_id == run_id)
        with self.transaction() as connection:
            query = query.order_by(rows.by_bytes(connection, table.c.agent))
            return {
                agent: AgentFacts.stored(facts)
                for agent, facts in connection.execute(query)
            }

    def add_event(self, run_id: str, kind: str, text: str, at_utc: str) -> None:
        table = schema.run_event
        count = sa.select(sa.func.count()).where(table.c.run_id == run_id)
        with self.transaction(writes=True) as connection:
            rows.require_run(connection, run_id)
            values = {"number": connection.execute(count).scalar_one(), "kind": kind}
            values |= {"run_id": run_id, "at_utc": at_utc, "text": text}
            connection.execute(table.insert(), values)

    def events(self, run_id: str) -> list[EventRecord]:
        """The run's events in the order they were added."""
        table = schema.run_event
        query = sa.select(table.c.at_utc, table.c.kind, table.c.text)
        query = query.where(table.c.run_id == run_id).order_by(table.c.number)
        with self.transaction() as connection:
            return [EventRecord(*row) for row in connection.execute(query)]

    # Clocks

    def add_clock_samples(self, run_id: str, samples: Iterable[ClockRow]) -> None:
        """Adds exchanges with agents' clocks; one that is there stays as it is."""
        values = [
            {"run_id": run_id, **dict(zip(ClockSample._fields, one, strict=True))}
            for one in samples
        ]
        with self.transaction(writes=True) as connection:
            rows.add_new(connection, schema.run_clock, values)

    def clock_samples(self, run_id: str) -> dict[str, list[ClockSample]]:
        """Agent -> its samples in the order of time; without those that have none."""
        table = schema.run_clock
        query = sa.select(*(table.c[name] for name in ClockSample._fields))
        query = query.where(table.c.run_id == run_id)
        found: dict[str, list[ClockSample]] = {}
        with self.transaction() as connection:
            for row in connection.execute(query.order_by(table.c.agent, table.c.at_ns)):
                found.setdefault(row.agent, []).append(ClockSample(*row))
        return found

    # Intervals

    def add_interval(self, run_id: str, record: IntervalRecord) -> Taken:
        """Takes a report, or refuses it. Durable on return."""
        return self.add_intervals([(run_id, record)])[0]

    def add_intervals(
        self, reports: Sequence[tuple[str, IntervalRecord]]
    ) -> list[Taken]:
        """Takes reports of runs in one transaction: with an error none of them."""
        with self.transaction(writes=True) as connection:
            return intervals.add_intervals(connection, reports)

    # A run as a file

    def export_run(self, run_id: str) -> Iterator[bytes]:
        """The run as the chunks of a SQLite file that holds it alone."""
        self.run(run_id)
        with tempfile.TemporaryDirectory(prefix="ldapslam-") as folder:
            path = Path(folder) / FOLDER_STORE
            with Store.open(path) as archive:
                self._copy_run(run_id, archive)
                archive._leave_wal()
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk

    def import_run(self, chunks: Iterable[bytes]) -> str:
        """Adds a run that `export_run` gave; returns its id."""
        with tempfile.TemporaryDirectory(prefix="ldapslam-") as folder:
            path = Path(folder) / FOLDER_STORE
            with path.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            with Store.open(path) as archive:
                found = archive.runs()
                if len(found) != 1:
                    raise StoreError(f"an archive holds one run, this one {len(found)}")
                run_id = found[0].run_id
                with contextlib.suppress(RunNotFound):
                    if self.run(run_id).run_id == run_id:
                        raise StoreError(
                            f"run {run_id!r} is already in store {self.url!r}"
                        )
                archive._copy_run(run_id, self)
        return run_id

    def _copy_run(self, run_id: str, target: Store) -> None:
        with self.transaction() as source, target.transaction(writes=True) as sink:
            for table in schema.TABLES:
                query = sa.select(table).where(table.c.run_id == run_id)
                found = source.execution_options(yield_per=_COPY_ROWS).execute(query)
                for batch in found.mappings().partitions():
                    sink.execute(table.insert(), [dict(row) for row in batch])

    def _leave_wal(self) -> None:
        """One plain file, which can be read where nothing can be written."""
        with self._lock, self._engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            if isinstance(raw, sqlite3.Connection):
                raw.execute("PRAGMA journal_mode=DELETE")

    # Access

    def _update_run(self, run_id: str, values: Mapping[str, object]) -> None:
        query = schema.run.update().where(schema.run.c.run_id == run_id)
        with self.transaction(writes=True) as connection:
            if connection.execute(query.values(values)).rowcount == 0:
                raise RunNotFound(run_id)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """One transaction of what is called within: all of it, or with an error
        nothing."""
        with self._lock, self.transaction(writes=True) as connection:
            outer, self._shared = self._shared, connection
            try:
                yield
            finally:
                self._shared = outer

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """A connection for one transaction, for modules of this package; StoreError."""
        with self._lock:
            if self._shared is not None:
                yield self._shared
                return
        options = {_WRITES: writes}
        try:
            with self._lock, self._engine.connect() as connection:
                connection = connection.execution_options(**options)
                begun_s = time.monotonic()
                with connection.begin():
                    if writes and self._token:
                        self._check_claim(connection)
                    yield connection
                if writes:
                    self.writes.note_commit(time.monotonic() - begun_s)
                self._check_settled()
        except DBAPIError as error:
            self._check_settled()
            failure = self._store_error(error)
            if writes:
                self.writes.note_failure(str(failure))
            raise failure from error

    def _check_settled(self) -> None:
        if self._settled is not None and self._settled != _settled(self.path):
            raise StoreError(
                f"store {self.url!r}: another process has written to it meanwhile",
                hint="call the command again",
            )

    def _store_error(self, error: DBAPIError) -> StoreError:
        detail = str(error.orig or error).strip()
        if "database is locked" in detail:
            return StoreBusy(self.url, _BUSY_TIMEOUT_S)
        if self._is_full(error):
            return StoreFull(self.url, detail)
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        is_lasting = code in (
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        )
        if is_lasting or isinstance(
            error, IntegrityError | DataError | ProgrammingError
        ):
            return StoreRefused(f"store {self.url!r}: {detail}")
        return StoreError(f"store {self.url!r}: {detail}")

    def _is_full(self, error: DBAPIError) -> bool:
        """SQLITE_FULL, or an I/O error where no room is left; disk_full (53100)."""
        if getattr(error.orig, "sqlstate", None) == "53100":
            return True
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_IOERR and self.path is not None:
            return shutil.disk_usage(self.path.parent).free < _LEAST_FREE_BYTES
        return bool(code == sqlite3.SQLITE_FULL)


_CLAIMANT = sa.text(
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
    f"WHERE locktype = 'advisory' AND granted AND objid = {_CLAIM_KEY} "
    "AND datname = current_database()"
)


def _address(url: str | Path) -> URL:
    if isinstance(url, Path) or "://" not in url:
        path = Path(url)
        if path.is_dir():
            path /= FOLDER_STORE
        return URL.create("sqlite", database=str(path))
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise NoStore(f"store: {url.partition('://')[0]}://… is no URL") from error
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    return address


def _settled(path: Path | None) -> tuple[int, int] | None:
    """The state of a file that no process has open to write, and so without what would
    have to be read beside it; None: there is none."""
    if path is None or any(
        path.with_name(path.name + end).exists() for end in ("-wal", "-journal")
    ):
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _check_revision(connection: Connection, shown: str, *, may_create: bool) -> None:
    """Makes the tables of a new store; NoStore, OtherSchema."""
    number = schema.revision.c.number
    tables = sa.inspect(connection).get_table_names()
    if schema.revision.name not in tables:
        if tables or not may_create:
            raise NoStore(f"store {shown!r} is not a results store of this version")
        schema.metadata.create_all(connection, checkfirst=False)
        connection.execute(schema.revision.insert(), {"number": schema.REVISION})
    elif (found := connection.scalar(sa.select(number))) != schema.REVISION:
        raise OtherSchema(shown, found, schema.REVISION)


def _sqlite_engine(
    path: Path | None, shown: str, read_only: bool, is_settled: bool
) -> Engine:
    uri = _sqlite_uri(path, shown, read_only) if path else "file::memory:"
    if is_settled:
        # otherwise SQLite makes files beside it, which who only reads cannot remove
        uri += "&immutable=1"

    def connect() -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                uri,
                uri=True,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,  # transactions begin by _begin, as asked for
                check_same_thread=False,  # the Store's lock serialises
            )
        except sqlite3.Error as error:
            raise NoStore(f"store {shown!r}: {error}") from error
        try:
            _check_format(connection, shown)
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA foreign_keys=ON")
            if not read_only:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail at once, not
        # wait, when another process writes: take the write lock at the start.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _check_format(connection: sqlite3.Connection, shown: str) -> None:
    """By SQLite: who opens and closes the file otherwise drops its locks (POSIX)."""
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise NoStore(f"store {shown!r} is not a results store") from error
        raise


def _sqlite_uri(path: Path, shown: str, read_only: bool) -> str:
    if not path.exists():
        if read_only:
            raise NoStore(f"store {shown!r} does not exist")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite gives the files beside it the same mode
            path.touch(mode=0o600)
        except OSError as error:
            raise NoStore(f"store {shown!r}: {error.strerror}") from error
    return path.as_uri() + ("?mode=ro" if read_only else "")


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def _plain_json(value: object) -> str:
    """Without NUL and half characters: PostgreSQL takes them, and cannot read the
    document any more."""
    text = json.dumps(value, ensure_ascii=False)
    return _NUL.sub(r"\1\\ufffd", text.encode(errors="replace").decode())


def _server_engine(address: URL, shown: str) -> Engine:
    try:
        engine = sa.create_engine(
            address, pool_pre_ping=True, json_serializer=_plain_json
        )
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise NoStore(
            f"store {shown!r}: unknown kind {address.drivername!r}",
            hint="use sqlite:///FILE or postgresql://USER@HOST/DATABASE",
        ) from error

    @event.listens_for(engine, "connect")
    def _be_durable(connection: DBAPIConnection, _: object) -> None:
        # an agent forgets what the store has acknowledged
        if engine.dialect.name == "postgresql":
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            connection.commit()

    return engine
