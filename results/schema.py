# SPDX-License-Identifier: Apache-2.0
"""The tables of the results store, in portable types.

Keys are natural: a report of an agent is (run, agent, attempt, sequence), which makes a
second delivery a key conflict and a copy of a run a copy of rows. A window of intervals
is one range of `interval_report_place`. The seed is text because it is an unsigned
64-bit number.

A new store is made from these tables and has their number, REVISION, which rises with
each change of them and of the facts in them (facts.py): a store of another number is
refused.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import SchemaItem

from ldapslam.base.errors import StoreRefused
from ldapslam.base.fault import Fault
from ldapslam.base.inert import one_line, one_line_texts
from ldapslam.base.names import checked_name

metadata = MetaData()
T = TypeVar("T")


class Name(TypeDecorator[str]):
    """A name (base/names.py); StoreRefused where a store has another text."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, _: Dialect) -> str | None:
        try:
            return value if value is None else checked_name(value)
        except Fault as fault:
            why = f"the store was changed by somebody: {fault}"
            raise StoreRefused(why, hint=fault.hint) from fault


class JobName(Name):
    impl = Text
    cache_ok = True


def _of_type(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise StoreRefused(f"the store was changed by somebody: {value!r:.80}")
    return value


class Word(TypeDecorator[str]):
    """A text of one line, as PostgreSQL takes it."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, _: Dialect) -> str | None:
        # half a character is no text
        return value and one_line(value.encode(errors="replace").decode())

    def process_result_value(self, value: str | None, _: Dialect) -> str | None:
        return value and one_line(_of_type(value, str))


class Line(Word):
    impl = Text
    cache_ok = True


class Document(TypeDecorator[Any]):
    """JSON with texts of one line; what options give may have several."""

    impl = JSON
    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self.impl_instance.coerce_compared_value(op, value)

    def process_result_value(self, value: Any, _: Dialect) -> Any:
        try:
            return one_line_texts(value, ("overrides",))
        except RecursionError:
            raise StoreRefused("the store was changed by somebody: deep JSON") from None


class Names(Document):
    """A list of names."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        names = _of_type(value, list)
        return [
            Name().process_result_value(_of_type(one, str), dialect) for one in names
        ]


REVISION = 19
revision = Table("revision", metadata, Column("number", Integer, primary_key=True))

run = Table(
    "run",
    metadata,
    Column("run_id", Name(64), primary_key=True),
    Column("job_name", JobName, nullable=False),
    Column("job_text", Text, nullable=False),
    Column("job_hash", Line, nullable=False),
    Column("seed", String(20), nullable=False),
    Column("submitted_utc", Word(32), nullable=False),
    Column("submitted_by", Line, nullable=False),
    Column("agents", Names, nullable=False),
    Column("plan", Document, nullable=False),
    Column("manifest", Document, nullable=False),
    Column("state", Word(16), nullable=False),
    Column("state_detail", Line, nullable=False),
    Column("t0_utc", Word(32)),
    Column("started_utc", Word(32)),
    Column("finished_utc", Word(32)),
    # PASS, FAIL or INVALID, once judged
    Column("verdict", Word(8)),
    # {document, sha256, signature}: reports/digest.py
    Column("digest", JSON(none_as_null=True)),
    # additions since its end that its verdict is not of
    Column("unjudged", Integer, nullable=False, server_default="0"),
    Column("priority", Integer, nullable=False, server_default="0"),
    # of a run that a schedule made
    Column("schedule_id", Name(64)),
    # lists are in this order, and do not read what is long
    Index("run_by_submission", "submitted_utc", "run_id"),
)


def _of_run(name: str, *parts: SchemaItem) -> Table:
    """A table of what belongs to a run, and goes with it."""
    return Table(
        name,
        metadata,
        Column("run_id", Name(64), primary_key=True),
        *parts,
        ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )


def _agent() -> Column[str]:
    return Column("agent", Name(255), primary_key=True)


def _number(name: str, kind: type[Integer] = Integer) -> Column[int]:
    """A part of a key."""
    return Column(name, kind, primary_key=True, autoincrement=False)


run_agent = _of_run(
    "run_agent",
    _agent(),
    Column("facts", Document, nullable=False),
    # Part in results/records.py; 0: the agent has no part yet
    Column("attempt", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("is_sealed", Boolean, nullable=False, server_default=false()),
    Column("room_bytes", BigInteger, nullable=False, server_default="0"),
)

run_event = _of_run(
    "run_event",
    _number("number"),
    Column("at_utc", Word(32), nullable=False),
    Column("kind", Word(64), nullable=False),
    Column("text", Line, nullable=False),
)

#: Exchanges with an agent's clock; times since T0, in the coordinator's clock.
run_clock = _of_run(
    "run_clock",
    _agent(),
    _number("at_ns", BigInteger),
    Column("offset_ns", BigInteger, nullable=False),
    Column("bound_ns", BigInteger, nullable=False),
)

monitor_description = _of_run(
    "monitor_description",
    _agent(),
    Column("monitor", Line, primary_key=True),
    # [[name, unit, kind]], in the order of the values
    Column("metrics", Document, nullable=False),
    Column("facts", Document, nullable=False),
)

#: A reading of a monitor.
monitor_sample = _of_run(
    "monitor_sample",
    _agent(),
    Column("monitor", Line, primary_key=True),
    # since T0
    _number("at_ns", BigInteger),
    Column("took_ns", BigInteger, nullable=False),
    # doubles, little-endian; NaN: missing; empty: the reading failed
    Column("packed_values", LargeBinary, nullable=False),
    Column("failure", Line),
)

#: What an agent reported of an interval, as it came (results/packing.py). Copies of
#: what queries need stand beside it.
interval_report = _of_run(
    "interval_report",
    _agent(),
    _number("attempt", BigInteger),
    _number("sequence"),
    Column("interval_index", Integer, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    # SHA-256 of `packed`
    Column("digest", LargeBinary, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    # an interval has one report of each agent, and the drain one more
    Index(
        "interval_report_place",
        "run_id",
        "interval_index",
        "agent",
        "attempt",
        "final",
        unique=True,
    ),
)

#: What was collected of some intervals while the run went on (results/collected.py).
collected_part = _of_run(
    "collected_part",
    _number("first_index"),
    Column("last_index", Integer, nullable=False),
    # of these intervals, of all attempts; and the SHA-256 of their rows
    Column("reports", Integer, nullable=False),
    Column("reports_sha256", String(64), nullable=False),
    # SHA-256 of what else it was made of
    Column("made_of", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

#: What a restarted coordinator needs to take a run up again.
submission = _of_run(
    "submission",
    # a serialised SubmitJobRequest
    Column("request", LargeBinary, nullable=False),
    Column("after_run", Name(64)),
)

schedule = Table(
    "schedule",
    metadata,
    Column("schedule_id", Name(64), primary_key=True),
    Column("name", Name(255), nullable=False, unique=True),
    # a serialised CreateScheduleRequest
    Column("request", LargeBinary, nullable=False),
    Column("state", Word(16), nullable=False),
    Column("created_utc", Word(32), nullable=False),
    Column("created_by", Line, nullable=False),
    # every time up to here has its row in schedule_fire, or was not due
    Column("settled_utc", Word(32), nullable=False),
)

#: The outcomes of a schedule's times: the key makes each of them happen once.
schedule_fire = Table(
    "schedule_fire",
    metadata,
    Column("schedule_id", Name(64), primary_key=True),
    Column("due_utc", Word(32), primary_key=True),
    Column("at_utc", Word(32), nullable=False),
    Column("outcome", Word(16), nullable=False),
    Column("run_ids", Names, nullable=False),
    Column("detail", Line, nullable=False),
    ForeignKeyConstraint(["schedule_id"], ["schedule.schedule_id"], ondelete="CASCADE"),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at_utc", Word(32), nullable=False),
    Column("who", Line, nullable=False),
    Column("role", Word(16), nullable=False),
    Column("peer", Line, nullable=False),
    Column("action", Word(32), nullable=False),
    Column("subject", Line, nullable=False),
    Column("detail", Line, nullable=False),
)

#: One row: the store's identity, and the coordinator that owns it. Writes of one whose
#: token is no more are refused.
claim = Table(
    "claim",
    metadata,
    Column("store_id", String(32), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
)

#: Of a run's archive, parents before children: the order in which a run is copied. The
#: others are the coordinator's own.
TABLES = (
    run,
    run_agent,
    run_event,
    run_clock,
    monitor_description,
    monitor_sample,
    interval_report,
    collected_part,
)
