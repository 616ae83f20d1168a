# SPDX-License-Identifier: Apache-2.0
"""The tables of the results store, in portable types.

Keys are natural: a report of an agent is (run, agent, attempt, sequence), which makes a
second delivery a key conflict and a copy of a run a copy of rows. A window of intervals
is one range of `interval_report_place`. The seed is text because it is an unsigned
64-bit number.

A new store is made from these tables and has their number, REVISION, which rises with
each change of them: a store of another number is refused.
"""

from __future__ import annotations

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
    false,
)
from sqlalchemy.schema import SchemaItem

metadata = MetaData()

REVISION = 12
revision = Table("revision", metadata, Column("number", Integer, primary_key=True))

run = Table(
    "run",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("job_name", Text, nullable=False),
    Column("job_text", Text, nullable=False),
    Column("job_hash", Text, nullable=False),
    Column("seed", String(20), nullable=False),
    Column("submitted_utc", String(32), nullable=False),
    Column("submitted_by", Text, nullable=False),
    Column("agents", JSON, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("manifest", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("state_detail", Text, nullable=False),
    Column("t0_utc", String(32)),
    Column("started_utc", String(32)),
    Column("finished_utc", String(32)),
    # PASS, FAIL or INVALID, once judged
    Column("verdict", String(8)),
    # {document, sha256, signature}: reports/digest.py
    Column("digest", JSON(none_as_null=True)),
    # additions since its end that its verdict is not of
    Column("unjudged", Integer, nullable=False, server_default="0"),
    Column("priority", Integer, nullable=False, server_default="0"),
    # of a run that a schedule made
    Column("schedule_id", String(64)),
    # lists are in this order, and do not read what is long
    Index("run_by_submission", "submitted_utc", "run_id"),
)


def _of_run(name: str, *parts: SchemaItem) -> Table:
    """A table of what belongs to a run, and goes with it."""
    return Table(
        name,
        metadata,
        Column("run_id", String(64), primary_key=True),
        *parts,
        ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )


def _agent() -> Column[str]:
    return Column("agent", String(255), primary_key=True)


def _number(name: str, kind: type[Integer] = Integer) -> Column[int]:
    """A part of a key."""
    return Column(name, kind, primary_key=True, autoincrement=False)


run_agent = _of_run(
    "run_agent",
    _agent(),
    Column("facts", JSON, nullable=False),
    # results/parts.py; 0: the agent has no part yet
    Column("attempt", BigInteger, nullable=False, server_default="0"),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("is_sealed", Boolean, nullable=False, server_default=false()),
    Column("room_bytes", BigInteger, nullable=False, server_default="0"),
)

run_event = _of_run(
    "run_event",
    _number("number"),
    Column("at_utc", String(32), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("text", Text, nullable=False),
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
    Column("monitor", Text, primary_key=True),
    # [[name, unit, kind]], in the order of the values
    Column("metrics", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
)

#: A reading of a monitor.
monitor_sample = _of_run(
    "monitor_sample",
    _agent(),
    Column("monitor", Text, primary_key=True),
    # since T0
    _number("at_ns", BigInteger),
    Column("took_ns", BigInteger, nullable=False),
    # doubles, little-endian; NaN: missing; empty: the reading failed
    Column("packed_values", LargeBinary, nullable=False),
    Column("failure", Text),
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

#: What a restarted coordinator needs to take a run up again.
submission = _of_run(
    "submission",
    # a serialised SubmitJobRequest
    Column("request", LargeBinary, nullable=False),
    Column("not_before_utc", String(32)),
    Column("after_run", String(64)),
    Column("after_if", String(8)),
)

schedule = Table(
    "schedule",
    metadata,
    Column("schedule_id", String(64), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    # a serialised CreateScheduleRequest
    Column("request", LargeBinary, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created_utc", String(32), nullable=False),
    Column("created_by", Text, nullable=False),
    # every time up to here has its row in schedule_fire, or was not due
    Column("settled_utc", String(32), nullable=False),
)

#: The outcomes of a schedule's times: the key makes each of them happen once.
schedule_fire = Table(
    "schedule_fire",
    metadata,
    Column("schedule_id", String(64), primary_key=True),
    Column("due_utc", String(32), primary_key=True),
    Column("at_utc", String(32), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("run_ids", JSON, nullable=False),
    Column("detail", Text, nullable=False),
    ForeignKeyConstraint(["schedule_id"], ["schedule.schedule_id"], ondelete="CASCADE"),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at_utc", String(32), nullable=False),
    Column("who", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("peer", Text, nullable=False),
    Column("action", String(32), nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
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
)
