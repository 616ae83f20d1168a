# SPDX-License-Identifier: Apache-2.0
"""Expected outcomes, requests without a response, and the steps of a set-up.

What was not counted before is zero, what was not timed is NULL.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_OPERATION_COUNTERS = (
    "expected",
    "abandoned",
    "substituted",
    "captures_missing",
    "requests",
)
_METRICS = (
    "response_time",
    "service_time",
    "send_lag",
    "receive_lag",
    "backlog_wait",
)
_OUTCOMES = ("expected", "timed_out", "unresolved")
_STREAM_COUNTERS = ("binds", "extended", "unbinds")
_SET_UP_TIMES = ("tcp_time", "tls_time", "bind_time")


def upgrade() -> None:
    for name in _OPERATION_COUNTERS:
        op.add_column("operation_interval", _counter(name))
    for metric in _METRICS:
        for outcome in _OUTCOMES:
            column: sa.Column[bytes] = sa.Column(f"{metric}_{outcome}", sa.LargeBinary)
            op.add_column("operation_interval", column)
    for name in _STREAM_COUNTERS:
        op.add_column("stream_interval", _counter(name))
    op.add_column("stream_interval", sa.Column("last_done_ns", sa.BigInteger))
    for name in _SET_UP_TIMES:
        op.add_column("stream_interval", sa.Column(name, sa.LargeBinary))


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
