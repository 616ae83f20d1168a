# SPDX-License-Identifier: Apache-2.0
"""Samples of the engine's own draws, for tests of how they are distributed: a small
program over its C files (agent/csrc/test/draw_samples.c), built once per session."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from ldapslam.jobs.plan import share
from ldapslam.jobs.rates.profile import Segment
from ldapslam.jobs.requests.template import Node, Template, compile_template

CSRC = Path(__file__).parents[2] / "agent" / "csrc"
_SOURCES = (
    "template/compile",
    "template/run",
    "template/text",
    "template/values",
    "template/feed",
    "load/pacer",
    "core/rng",
    "test/draw_samples",
)

CONSTANT, POISSON, UNIFORM_ARRIVALS = range(3)


class Share(NamedTuple):
    """Connections of one worker: first + i * step, i < connections, of total."""

    first: int = 0
    step: int = 1
    connections: int = 1
    total: int = 1

    def takes(self, end: int) -> int:
        """How many numbers below `end` the share takes."""
        own = {self.first + i * self.step for i in range(self.connections)}
        rounds, rest = divmod(end, self.total)
        return rounds * self.connections + sum(number < rest for number in own)


ALONE = Share()


def fleet(connections: int, workers: Sequence[int]) -> list[Share]:
    """The shares of all workers of a fleet; an agent has so many of them. Connections
    are dealt as in a run: those of the run to the agents in turn (jobs/plan.py),
    those of an agent to its workers in turn (flow.c)."""
    agents = len(workers)
    return [
        Share(
            first=agent + worker * agents,
            step=count * agents,
            connections=share(own, count, worker),
            total=connections,
        )
        for agent, count in enumerate(workers)
        if (own := share(connections, agents, agent))
        for worker in range(count)
        if worker < own
    ]


class Sampler:
    """The program, at work."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _tell(self, *words: object) -> None:
        assert self._process.stdin
        self._process.stdin.write(" ".join(map(str, words)) + "\n")

    def _lines(self, count: int) -> Iterator[str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.flush()
        for _ in range(count):
            line = self._process.stdout.readline()
            assert line, "the program ended; its reason is on stderr"
            yield line.strip()

    def _op(self, template: Template, command: str = "op") -> None:
        self._tell(command, template.program.hex() or "-", len(template.values))
        for v in template.values:
            self._tell(
                v.kind,
                v.lo,
                v.hi,
                v.step,
                v.width,
                float(v.a).hex(),
                float(v.b).hex(),
                _hex(v.data),
            )

    def refusals(self, templates: Sequence[Template]) -> list[str]:
        """For each template "ok", or why the engine does not take it."""
        for template in templates:
            self._op(template, "check")
        return list(self._lines(len(templates)))

    def variable(self, number: int, text: bytes) -> None:
        self._tell("variable", number, _hex(text))

    def texts(
        self, template: Template, count: int, *, seed: int = 1, share: Share = ALONE
    ) -> list[bytes]:
        """The texts that a template without TLVs draws."""
        self._op(template)
        self._tell("seed", seed)
        self._tell("text", *share, count)
        return [bytes.fromhex(line) for line in self._lines(count)]

    def numbers(self, source: Node, count: int, *, seed: int = 1) -> list[int]:
        """What a source of numbers draws."""
        template = compile_template(source)
        return [int(text) for text in self.texts(template, count, seed=seed)]

    def requests(
        self, template: Template, count: int, *, seed: int = 1, share: Share = ALONE
    ) -> list[bytes]:
        """Encoded LDAPMessages, all with messageID 1."""
        self._op(template)
        self._tell("seed", seed)
        self._tell("encode", *share, count)
        return [bytes.fromhex(line) for line in self._lines(count)]

    def profile(self, segments: Sequence[Segment]) -> None:
        self._tell("profile", len(segments))
        for s in segments:
            self._tell(s.duration_ns, *(float(x).hex() for x in (s.a, s.b)))

    def arrivals(
        self,
        kind: int,
        *,
        share: Share = ALONE,
        limit: int = 0,
        most: int = 10**6,
        until_ns: int = 1 << 62,
        seed: int = 1,
    ) -> list[int]:
        """Times of a share's arrivals, ns after T0."""
        self._tell("seed", seed)
        self._tell("pace", kind, limit, *share, most, until_ns)
        times = []
        for line in self._lines(most + 1):
            if line == "end":
                break
            times.append(int(line))
        return times

    def expected(self, t_ns: int) -> float:
        """N(t) of the profile."""
        self._tell("expect", t_ns)
        return float(next(self._lines(1)))


def _hex(data: bytes) -> str:
    return data.hex() or "-"


def build(folder: Path, *options: str) -> Sampler:
    """The program, built in a folder."""
    program = folder / "draw_samples"
    sources = [str(CSRC / f"{name}.c") for name in _SOURCES]
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", *options, f"-I{CSRC}"]
    subprocess.run([*command, *sources, "-lm", "-o", str(program)], check=True)
    return Sampler(program)


@pytest.fixture(scope="session")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sampler]:
    sampler = build(tmp_path_factory.mktemp("samples"))
    yield sampler
    sampler.close()
