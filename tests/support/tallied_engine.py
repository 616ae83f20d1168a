# SPDX-License-Identifier: Apache-2.0
"""The engine's process, which also keeps a tally of its own of what it measured.

    python tallied_engine.py TALLY

Each snapshot is appended to TALLY before it is handed to the agent, as an
IntervalReport after its length in 4 bytes: what was measured, whatever becomes of agent
and coordinator afterwards.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldapslam.agent.engine.process import Pipe, RunProcess, main
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.proto.engine_pb2 import PrepareEngine
from ldapslam.results.packing import pack, unpack

_LENGTH = struct.Struct("<I")


def tallied_engine(tally: Path) -> list[str]:
    """The command."""
    return [sys.executable, "-P", __file__, str(tally)]


def read_tally(tally: Path, run_id: str) -> Iterator[Snapshot]:
    """What was measured in this run, in order."""
    content = tally.read_bytes() if tally.exists() else b""
    start = 0
    while start < len(content):
        (size,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size
        report = IntervalReport.FromString(content[start : start + size])
        start += size
        if report.run_id == run_id:
            yield unpack(report.packed)


def _make_run(pipe: Pipe, request: PrepareEngine) -> RunProcess:
    tally = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    send = pipe.send

    def send_tallied(**kind: Any) -> None:
        snapshot = kind.get("snapshot")
        if snapshot is not None:
            report = IntervalReport(
                run_id=request.run.run_id, packed=pack(snapshot)
            ).SerializeToString()
            os.write(tally, _LENGTH.pack(len(report)) + report)
        send(**kind)

    pipe.send = send_tallied  # type: ignore[method-assign]
    return RunProcess(pipe, request)


if __name__ == "__main__":
    status = main(_make_run)
    # as the real one does
    os._exit(status)
