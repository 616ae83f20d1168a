# SPDX-License-Identifier: Apache-2.0
"""The fork server of an agent, in a program of its own: pytest has threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from support.processes import is_alive
from support.waiting import wait_until

_PROGRAM = """
import asyncio, contextlib, gc, os, signal, sys, time
from pathlib import Path
import psutil
from ldapslam.agent.children import EngineChild
from ldapslam.agent import fork_server as server
from ldapslam.agent.fork_server import ENGINE, ForkedProcess, fork_server
from ldapslam.proto import engine_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment
from support.waiting import wait_until

folder = Path(sys.argv[1])
log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

async def launch(forks):
    return await EngineChild.launch(
        RunAssignment(run_id="r", job_text=b"job: nothing"), pb.PrepareEngine(),
        work=folder / "work", log_path=folder / "logs" / "engine-a-r.log", forks=forks,
    )

async def use(forks):
{body}

with fork_server() as forks:
    asyncio.run(use(forks))
"""


def outcome(body: str, folder: Path, status: int = 0) -> list[str]:
    """Lines that a program prints which has a fork server."""
    program = _PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines()


def test_a_process_is_the_agents_own_child_and_speaks_as_a_program_does(
    tmp_path: Path,
) -> None:
    body = """
        waiting = await forks.launch(ENGINE, log)
        process = psutil.Process(waiting.pid)
        while "ldapslam.agent.fork_server" in process.cmdline():
            await asyncio.sleep(0.005)  # it has not set its title yet
        print(process.ppid() == os.getpid(), *filter(None, process.cmdline()))
        waiting.stdin.close()
        await waiting.wait()
        child = await launch(forks)
        async for event in child.events():
            print(event.WhichOneof("kind"))
        print(await child.wait())
    """
    assert outcome(body, tmp_path) == [
        "True ldapslam.agent.engine.process",
        "failed",
        "exit status 1",
    ]
    assert "run r" in (tmp_path / "logs" / "engine-a-r.log").read_text()


def test_a_killed_process_takes_neither_the_agent_nor_the_next_one_down(
    tmp_path: Path,
) -> None:
    body = """
        first = await forks.launch(ENGINE, log)
        first.kill()
        print(await first.wait())
        second = await forks.launch(ENGINE, log)
        second.stdin.close()
        print(await second.wait(), len(psutil.Process().children()))
    """
    # 3: it ends with its agent's end of the pipe; the child left is the server
    assert outcome(body, tmp_path) == ["-9", "3 1"]


def test_without_the_server_processes_go_on_and_new_ones_are_programs(
    tmp_path: Path,
) -> None:
    body = """
        before = await forks.launch(ENGINE, log)
        [server] = [one for one in psutil.Process().children() if one.pid != before.pid]
        server.kill()
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        print(psutil.pid_exists(before.pid))
        child = await launch(forks)
        print(await child.wait())
        before.stdin.close()
        print(await before.wait())
    """
    assert outcome(body, tmp_path) == ["True", "exit status 1", "3"]


def test_a_cancelled_launch_leaves_no_process(tmp_path: Path) -> None:
    body = """
        async def cancelled(steps):
            task = asyncio.create_task(forks.launch(ENGINE, log))
            await steps()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                process = await task
                process.kill()
                await process.wait()

        class Marked(ForkedProcess):
            @classmethod
            async def of(cls, *arguments):
                started.set()
                return await super().of(*arguments)

        server.ForkedProcess = Marked
        for pause_s in (0.0, 0.001, 0.01):
            started = asyncio.Event()
            await cancelled(lambda: asyncio.sleep(pause_s))
        # between the pipes of a process that has started
        for turns in range(8):
            started = asyncio.Event()

            async def steps():
                await started.wait()
                for _ in range(turns):
                    await asyncio.sleep(0)

            await cancelled(steps)
        gc.collect()
        print(len(psutil.Process().children()), len(os.listdir("/proc/self/fd")) < 20)
    """
    assert outcome(body, tmp_path) == ["1 True"]


def test_the_server_and_its_processes_end_with_a_killed_agent(tmp_path: Path) -> None:
    body = """
        process = await forks.launch(ENGINE, log)
        print(*(one.pid for one in psutil.Process().children()), flush=True)
        pid = os.fork()
        if pid == 0:
            time.sleep(0.1)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        time.sleep(60)
    """
    [line] = outcome(body, tmp_path, -signal.SIGKILL)
    pids = [int(word) for word in line.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)), "their end")
