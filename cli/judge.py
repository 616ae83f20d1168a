# SPDX-License-Identifier: Apache-2.0
"""The verdict of an ended run, found by a process of its own.

    python -m ldapslam.cli.judge

The coordinator never loads what judges and renders: the figures of a long run take
seconds of CPU and hundreds of megabytes. So a child does it, with low priority, one at
a time, within a limit of time; its memory goes with it. It is told store and run on
stdin (a store's URL may hold a password, and arguments are everybody's), and answers
with one JSON document on stdout. Whatever becomes of it, the run stays as it is: one
that cannot be judged has no verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ldapslam.jobs.errors import LdapSlamError
from ldapslam.jobs.log_format import format_of_parent, set_up_log
from ldapslam.jobs.process import end_with_parent
from ldapslam.reports.results.records import RunRecord
from ldapslam.reports.results.store import Store

_log = logging.getLogger(__name__)

#: -P: the current folder is not a place to import from.
COMMAND = (sys.executable, "-P", "-m", "ldapslam.cli.judge")
#: Twelve hours of four agents took 70 s, on two cores that were busy with others.
LIMIT_S = 300.0

#: 19 gets what nobody else wants, and may never end on a busy host.
_NICENESS = 10
_VERDICTS = ("PASS", "FAIL", "INVALID")
_KEPT_REASONS = 256


class JudgeProcess:
    """A hooks.Judge; also knows the reasons of its last verdicts."""

    def __init__(
        self,
        store_url: str,
        *,
        limit_s: float = LIMIT_S,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._store_url = store_url
        self._limit_s = limit_s
        self._command = command
        self._one_at_a_time = asyncio.Lock()
        self._reasons: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def reasons(self, run_id: str) -> tuple[str, ...]:
        """Why the run's verdict is not PASS; empty also when it is not known."""
        return self._reasons.get(run_id, ())

    async def __call__(self, run_id: str) -> str | None:
        """PASS, FAIL or INVALID; None for a run that never began, or that cannot be
        judged: the log says why."""
        async with self._one_at_a_time:
            try:
                answer = await self._ask(run_id)
            except (OSError, ValueError) as error:
                _log.error("run %s could not be judged: %s", run_id, error)
                return None
        verdict = answer.get("verdict")
        if verdict not in _VERDICTS:
            if verdict is not None or "why" in answer:
                why = answer.get("why", f"verdict {verdict!r}")
                _log.error("run %s could not be judged: %s", run_id, why)
            return None
        self._reasons[run_id] = tuple(map(str, answer.get("reasons", ())))
        while len(self._reasons) > _KEPT_REASONS:
            self._reasons.popitem(last=False)
        return str(verdict)

    async def _ask(self, run_id: str) -> dict[str, Any]:
        """The process's answer; OSError or ValueError when there is none."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        question = {"store": self._store_url, "run_id": run_id}
        question["limit_s"] = f"{self._limit_s:.0f}"
        try:
            async with asyncio.timeout(self._limit_s):
                answer, _ = await process.communicate(json.dumps(question).encode())
        except TimeoutError:
            raise TimeoutError(f"not done within {self._limit_s:g} s") from None
        finally:
            # also when whoever asked has gone
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            raise ChildProcessError(f"its process ended with {process.returncode}")
        found = json.loads(answer)
        if not isinstance(found, dict):
            raise ValueError("its process gave no answer")
        return found


def judge(store_url: str, run_id: str) -> dict[str, Any]:
    """The answer: `verdict` and `reasons`; no verdict of a run that never began."""
    from ldapslam.reports.summary import summarise

    with Store.open(store_url, read_only=True) as store:
        if not has_begun(store.run(run_id)):
            return {"verdict": None}
        summary = summarise(store, run_id)
    return {"verdict": summary.verdict, "reasons": list(summary.reasons)}


def has_begun(record: RunRecord) -> bool:
    """False of a run that ended before any load: it has no figures to judge."""
    return bool(record.t0_utc) or record.state not in ("failed", "cancelled")


def main() -> None:
    """Answer the question on stdin."""
    set_up_log(format_of_parent())
    end_with_parent()
    question = json.load(sys.stdin)
    os.nice(_NICENESS)
    limit_s = int(question["limit_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    try:
        answer = judge(question["store"], question["run_id"])
    except LdapSlamError as error:
        answer = {"why": str(error)}
    except Exception as error:
        _log.exception("run %s", question["run_id"])
        answer = {"why": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
