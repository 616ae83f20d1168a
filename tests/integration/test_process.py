# SPDX-License-Identifier: Apache-2.0
"""Forks, in a program of its own: pytest's processes have threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ldapslam.base.process import EXIT_ORPHANED
from support.waiting import wait_until

_IMPORTS = """
import os, signal, sys, threading, time
from pathlib import Path
from ldapslam.base.process import Fork, end_with_parent
"""


def outcome(program: str, **options: object) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _IMPORTS + program],
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_a_fork_ends_with_what_its_function_returns() -> None:
    program = """
ended = Fork(lambda: 7, ["seven"], (0, 1, 2)).wait()
sleeping = Fork(lambda: time.sleep(600) or 0, ["sleeps"], (0, 1, 2))
print(ended, sleeping.poll(), sleeping.wait(0.01))
sleeping.send_signal(signal.SIGTERM)
print(sleeping.wait(), sleeping.poll())
"""
    assert outcome(program).split() == ["7", "None", "None", "-15", "-15"]


def test_a_fork_that_raises_ends_with_70_and_says_why() -> None:
    program = """
print(Fork(lambda: 1 // 0, ["fails"], (0, 1, 1)).wait())
"""
    said = outcome(program)
    assert "ZeroDivisionError" in said
    assert said.split()[-1] == "70"


def test_a_fork_has_its_own_outputs_and_no_foreign_descriptor(tmp_path: Path) -> None:
    foreign, _ = os.pipe()
    os.set_inheritable(foreign, True)
    program = f"""
def run():
    print("said", os.path.exists("/proc/self/fd/{foreign}"))
    print("logged", file=sys.stderr)
    return 0
print(os.path.exists("/proc/self/fd/{foreign}"))
with open("{tmp_path}/out", "w") as out, open("{tmp_path}/log", "w") as log:
    Fork(run, ["talks"], (0, out.fileno(), log.fileno())).wait()
"""
    assert outcome(program, pass_fds=(foreign,)) == "True\n"
    assert (tmp_path / "out").read_text() == "said False\n"
    assert (tmp_path / "log").read_text() == "logged\n"


def test_ps_shows_the_title_of_a_fork() -> None:
    program = """
def run():
    print(Path("/proc/self/cmdline").read_text().rstrip("\\0").split("\\0"))
    return 0
Fork(run, ["ldapslam", "agent"], (0, 1, 2)).wait()
"""
    assert outcome(program) == "['ldapslam', 'agent']\n"


def test_a_process_with_threads_does_not_fork() -> None:
    program = """
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
try:
    Fork(lambda: 0, ["never"], (0, 1, 2))
except RuntimeError as error:
    print(error)
"""
    assert outcome(program) == "a process with threads must not fork\n"


def test_a_fork_ends_with_its_parent_however_that_ends() -> None:
    program = """
parent = os.getpid()
def run():
    end_with_parent(parent, signal.SIGTERM)
    print(os.getpid(), flush=True)
    return time.sleep(600) or 0
Fork(run, ["child"], (0, 1, 2)).wait()
"""
    with subprocess.Popen(
        [sys.executable, "-c", _IMPORTS + program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "its end")


def test_a_fork_whose_parent_has_gone_before_ends_at_once() -> None:
    program = """
print(Fork(lambda: end_with_parent(1) or 0, ["orphan"], (0, 1, 2)).wait())
"""
    assert int(outcome(program)) == EXIT_ORPHANED
