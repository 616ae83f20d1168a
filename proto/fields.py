# SPDX-License-Identifier: Apache-2.0
"""Names of counters, metrics and outcomes, and the columns of an interval's tables.

The one list of them in Python, in the engine's order (agent/csrc/core/recorder.h and
load/engine.h); snapshots, sums and exports are made of it.
"""

from __future__ import annotations

import re
import zlib
from itertools import product
from typing import Any

from google.protobuf.descriptor import EnumDescriptor

from ldapslam.base.causes import FAILURE_CAUSES, LOSS_CAUSES


def words_of(enum: EnumDescriptor) -> dict[str, Any]:
    """The enum's values by their names, in lower case and without the enum's own."""
    prefix = re.sub("(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    return {one.name.removeprefix(prefix).lower(): one.number for one in enum.values}


#: Histograms of an operation; a sequence time is recorded with the last response of a
#: session of several requests.
METRICS = (
    "response_time",
    "service_time",
    "send_lag",
    "receive_lag",
    "backlog_wait",
    "sequence_time",
)
#: `expected` is a result code other than success that the job allows; the last two had
#: no response, their times end when they were given up.
OUTCOMES = ("succeeded", "failed", "expected", "timed_out", "unresolved")

OPERATION_COUNTERS = (
    "scheduled",
    "sent",
    "completed",
    "succeeded",
    "expected",
    "failed",
    "dropped",
    "timed_out",
    "unresolved",
    "abandoned",
    "substituted",
    "captures_missing",
    "requests",
    "entries",
    "empty",
    "references",
)
#: With the gauges, `down_ns`, the time from when connections were lost, or not made,
#: until they were set up again, and `unable_ns`, where that was the generator's fault.
STREAM_COUNTERS = (
    "connects",
    "connect_failures",
    "disconnects",
    "lost_requests",
    "down_ns",
    "unable_ns",
    "protocol_errors",
    "late_responses",
    "unexpected_messages",
    "notices",
    "stamps_missing",
    "shared_stamps",
    "binds",
    "extended",
    "unbinds",
    "in_flight",
    "backlog",
    "connecting",
    *FAILURE_CAUSES,
    *LOSS_CAUSES,
)
#: Not added up.
GAUGES = ("in_flight", "backlog", "connecting")
CONNECTION_COUNTERS = tuple(
    name
    for name in STREAM_COUNTERS
    if name not in {*GAUGES, *FAILURE_CAUSES, *LOSS_CAUSES} and not name.endswith("_ns")
)
#: Packed histograms of set-ups: the whole, and its steps.
SET_UP_TIMES = ("connect_time", "tcp_time", "tls_time", "bind_time")
WORKER_COUNTERS = (
    "wall_ns",
    "busy_ns",
    "spin_ns",
    "cpu_ns",
    "run_queue_ns",
    "loops",
)

#: Metric and outcome of each histogram of an operation.
HISTOGRAMS = tuple(product(METRICS, OUTCOMES))

#: Result code of a row that stands for all codes that the engine does not count apart.
OTHER_CODES = -1

#: Times since T0, 0: none, and bits of slots (core/recorder.h). Several agents together
#: have the latest time, the earliest, and the bits of all.
LATEST_TIMES = ("last_done_ns", "silence_after_ns")
EARLIEST_TIMES = tuple(
    "silence_since_ns silence_through_ns silence_until_ns waiting_since_ns".split()
)
SLOTS = ("heard", "waited")
STREAM_TIMES = (*LATEST_TIMES, *EARLIEST_TIMES, *SLOTS)
#: Table of a snapshot -> its columns. A row has the number of its responses, and the
#: length of each of its histograms and set-up times; 0: it has none.
TABLES = {
    "operations": (
        "stream",
        "operation",
        "server",
        "measured",
        "responses",
        *OPERATION_COUNTERS,
        *map("_".join, HISTOGRAMS),
    ),
    "responses": ("result_code", "count", "message"),
    "streams": ("stream", "server", *STREAM_TIMES, *STREAM_COUNTERS, *SET_UP_TIMES),
    "workers": ("worker", "is_open", *WORKER_COUNTERS),
}
#: Fields of a snapshot that are filled table by table and are joined as they are.
PACKED = (*TABLES, "messages", "histograms", "set_ups")
LAYOUT = zlib.crc32(repr(TABLES).encode())
