# SPDX-License-Identifier: Apache-2.0
"""The runs of a gate: one coordinator, its agents and the labs of both sides stay up
from the first run to the last."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ldapslam.base.errors import ConfigError
from ldapslam.cli import outcome
from ldapslam.cli.client import Client
from ldapslam.cli.console import say
from ldapslam.cli.follow import follow_or_cancel
from ldapslam.cli.measure.local_fleet import agent_names, local_fleet
from ldapslam.cli.options import STORE_NAME
from ldapslam.cli.progress import Progress
from ldapslam.cli.study.gate_length import (
    has_free_length,
    longer_ns,
    with_length,
)
from ldapslam.cli.study.gate_sides import Side
from ldapslam.cli.study.other_load import OtherLoad
from ldapslam.cli.submission import JobFile, request_of, say_doubts
from ldapslam.jobs.doubts import unsupported_thresholds
from ldapslam.proto import operator_pb2 as pb
from ldapslam.reports.figures import readings_of
from ldapslam.reports.rules.rules import Cause
from ldapslam.results.store import Store
from ldapslam.studies.gate import NEW, Made
from ldapslam.studies.gate_facts import About, about_run
from ldapslam.studies.labs import Labs

if TYPE_CHECKING:
    from ldapslam.reports.model import Summary


class Runs:
    """Makes the runs of both sides; a context manager."""

    def __init__(
        self, sides: Mapping[str, Side], folder: Path, agents: int | None
    ) -> None:
        self.sides, self._folder, self._agents = dict(sides), folder, agents
        self._store = folder / STORE_NAME
        self._labs: dict[str, Labs] = {}
        self._stack = contextlib.ExitStack()
        #: In the order in which they ended.
        self.made: list[Made] = []
        #: Side -> what its last run was.
        self.about: dict[str, About] = {}
        #: Of the last run, as `Made` has it.
        self.other_cpu_share: float | None = None
        #: What was said of the jobs.
        self._doubts: set[str] = set()

    def __enter__(self) -> Self:
        if self._store.exists():
            raise ConfigError(
                f"the folder {str(self._folder)!r} holds the results of another gate",
                hint="name another one with --out, or remove it",
            )
        is_new = not self._folder.exists()
        outcome.make_folder(self._folder, 0o700)
        with contextlib.ExitStack() as stack:
            if is_new:
                stack.push(self._remove_folder)
            self._bring_up_labs(stack)
            self._bring_up_fleet(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _remove_folder(self, kind: type[BaseException] | None, *_: object) -> None:
        """Remove the folder if the gate never began, or was refused no later than after
        the first runs that count."""
        is_refused = kind is not None and issubclass(kind, ConfigError)
        if is_refused and sum(one.is_sound for one in self.made) <= len(self.sides):
            shutil.rmtree(self._folder)
        elif kind is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def _bring_up_labs(self, stack: contextlib.ExitStack) -> None:
        for name, side in self.sides.items():
            if side.lab is not None:
                labs = Labs(side.lab, [side.point], partial(_say_of, name))
                stack.callback(labs.close)
                labs.servers(side.point, side.job)
                self._labs[name] = labs

    def _bring_up_fleet(self, stack: contextlib.ExitStack) -> None:
        jobs = [one.job for one in self.sides.values()]
        # enough for each side's job
        names = {
            name: None for one in jobs for name in agent_names(one.agents, self._agents)
        }
        labels = {
            key: value
            for one in jobs
            for key, value in (one.agents.labels or {}).items()
        }
        fleet = stack.enter_context(
            local_fleet(list(names), labels, self._store, self._folder)
        )
        self._client = stack.enter_context(Client(fleet.address))

    @property
    def duration_ns(self) -> int:
        """Of the measure phase."""
        return self.sides[NEW].job.run.duration_ns

    def longer_ns(self, times: float) -> int | None:
        """That many times as much; None where something else says how long runs are."""
        if not has_free_length(self.sides.values()):
            return None
        return longer_ns(self.sides[NEW].job, times)

    def lengthen(self, duration_ns: int) -> None:
        """Make later runs so long; those so far were to find that out."""
        for name, side in self.sides.items():
            self.sides[name] = with_length(side, duration_ns)
        why = ("too short for a percentile",)
        self.made = [
            replace(
                one,
                reasons=(*one.reasons, *why),
                is_sound=False,
                is_pilot=True,
                uncertain=(),
            )
            for one in self.made
        ]

    def restart(self) -> None:
        """Restart the servers of the labs."""
        for labs in self._labs.values():
            labs.restart()

    def run(self, name: str) -> Summary:
        """One run of a side; the errors of a run that never started."""
        from ldapslam.reports.summarise import summarise

        side = self.sides[name]
        changes, made_of = list(side.point.overrides), None
        if name in self._labs:
            servers = self._labs[name].servers(side.point, side.job)
            changes += servers.overrides
            made_of = servers.made_of
        others = OtherLoad()
        source = JobFile(Path(side.point.job))
        job = source.load(changes)
        # a gate knows more of these than a run
        self._doubts.update(unsupported_thresholds(job))
        say_doubts(job, self._doubts)
        request = request_of(source, job, changes, made_of)
        run_id = self._client.submit(request)
        status, is_interrupted = follow_or_cancel(self._client, run_id, _Silent())
        # elsewhere a server of the gate may be one of them
        self.other_cpu_share = others.share if name in self._labs else None
        if is_interrupted:
            raise KeyboardInterrupt
        outcome.raise_if_never_started(status)
        with Store.open(self._store) as store:
            summary = outcome.judged(store, summarise(store, run_id))
        self.made.append(
            Made(
                name,
                run_id,
                summary.verdict,
                summary.reasons,
                is_sound(summary),
                summary.run.finished_utc or "",
                uncertain=summary.uncertain,
                readings=readings_of(summary.figures),
                other_cpu_share=self.other_cpu_share,
            )
        )
        self.about[name] = about_run(summary)
        return summary

    def note_gone(self, name: str, why: str) -> None:
        """A run of a server that could not be used any more."""
        self.made.append(Made(name, "", "FAIL", (why,), is_sound=True))


def is_sound(summary: Summary) -> bool:
    """Whether neither the generator nor the evidence is at fault. Of a threshold that a
    short run leaves uncertain a gate knows more than the run."""
    return all(one.passed or one.cause is Cause.TARGET for one in summary.rules)


def _say_of(side: str, text: str) -> None:
    say(f"{side}: {text}")


class _Silent(Progress):
    def show(self, update: pb.RunUpdate) -> None:
        """Nothing: there are many runs."""
