# SPDX-License-Identifier: Apache-2.0
"""A child process that answers one question: JSON on stdin, JSON on stdout.

For work that is slow, large or foreign: its memory and its hangs end with the process.
Its arguments hold no secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.base.inert import parse_json
from ldapslam.base.log_format import format_of_parent, set_up_log
from ldapslam.base.process import end_with_parent

_log = logging.getLogger(__name__)


def command_of(module: str) -> tuple[str, ...]:
    # -P: no imports from the current folder
    return sys.executable, "-P", "-m", module


async def ask(
    command: Sequence[str], question: Mapping[str, Any], limit_s: float
) -> dict[str, Any]:
    """The child's answer; OSError or ValueError without one. The child is killed at its
    limit, and when the caller is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(json.dumps(question).encode())
    except TimeoutError:
        raise TimeoutError(f"not done within {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ChildProcessError(f"its process ended with {process.returncode}")
    found = parse_json(answer)
    if not isinstance(found, dict):
        raise ValueError("its process gave no answer")
    return found


def answer(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Be the child: answer the question on stdin; an error becomes `why`."""
    set_up_log(format_of_parent())
    end_with_parent()
    try:
        found = work(parse_json(sys.stdin.read()))
    except LdapSlamError as error:
        found = {"why": str(error)}
    except Exception as error:
        _log.exception("%s", sys.argv[0])
        found = {"why": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(found))
