# SPDX-License-Identifier: Apache-2.0
"""A child process that nobody waits for any more: it ends, its folder is removed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import psutil
import pytest

from ldapslam.agent import children
from ldapslam.agent.children import EngineChild
from ldapslam.proto import engine_pb2
from ldapslam.proto.common_pb2 import RunAssignment

#: More than a pipe holds.
LARGE = "x" * (4 << 20)


async def cancelled(
    run: RunAssignment,
    folder: Path,
    reached: threading.Event,
    then: threading.Event | None = None,
) -> None:
    """Once it is that far; `then` is set when it knows."""
    launch = asyncio.create_task(
        EngineChild.launch(
            run,
            engine_pb2.PrepareEngine(),
            work=folder / "work",
            log_path=folder / "logs" / "engine-a-b.log",
            command=("sleep", "600"),
        )
    )
    await asyncio.to_thread(reached.wait)
    launch.cancel()
    if then is not None:
        asyncio.get_running_loop().call_soon(then.set)
    with pytest.raises(asyncio.CancelledError):
        await launch


def test_a_launch_that_is_cancelled_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def store(run: RunAssignment, folder: Path) -> None:
        begun.set()
        may_end.wait()
        (folder / "file-0").write_text("uid=a\tsecret")

    monkeypatch.setattr(children, "store_files", store)

    asyncio.run(cancelled(RunAssignment(), tmp_path, begun, may_end))
    assert list((tmp_path / "work").iterdir()) == []


def test_a_process_that_does_not_take_its_run_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = threading.Event()
    send = EngineChild.send
    pids = []

    async def told(child: EngineChild, request: engine_pb2.EngineRequest) -> None:
        pids.append(child.pid)
        sending.set()
        await send(child, request)

    monkeypatch.setattr(EngineChild, "send", told)
    run = RunAssignment(job_text=LARGE.encode())
    asyncio.run(cancelled(run, tmp_path, sending))
    assert list((tmp_path / "work").iterdir()) == []
    assert [psutil.pid_exists(pid) for pid in pids] == [False]
