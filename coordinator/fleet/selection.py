# SPDX-License-Identifier: Apache-2.0
"""Which agents a run asks for, and which of those that fit it gets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that may be chosen."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The same for agents of one host; empty: a host of its own.
    host_id: str = ""
    #: True: only for runs that name it.
    is_restricted: bool = False
    runs: int = 0

    @property
    def host(self) -> str:
        return self.host_id or f"agent {self.name}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The agents a job asks for: by number, by name, by label, or all there are."""

    #: None: all that fit.
    count: int | None = None
    names: tuple[str, ...] = ()
    #: Those that carry all of these labels.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The load needs no more; None: no limit.
    most: int | None = None
    #: The least number of hosts.
    hosts: int = 1

    def fits(self, candidate: Candidate) -> bool:
        if self.names:
            return candidate.name in self.names
        return not candidate.is_restricted and all(
            candidate.labels.get(key) == value for key, value in self.labels.items()
        )

    def ineligible(self, candidates: Iterable[Candidate]) -> tuple[str, ...]:
        """Why candidates do not fit, for people; none when agents are named."""
        others = [one for one in candidates if not (self.names or self.fits(one))]
        lack = f"not labelled {self._label_text()}"
        found: dict[str, list[str]] = {"only for jobs that name them": [], lack: []}
        for one in others:
            why = "only for jobs that name them" if one.is_restricted else lack
            found[why].append(one.name)
        return tuple(
            f"{', '.join(names)}: {why}" for why, names in found.items() if names
        )

    def needed(self, candidates: int) -> int:
        """Agents needed, when this many fit; at least one."""
        if self.names:
            return len(self.names)
        return max(1, candidates if self.count is None else self.count)

    def can_have(self, fitting: Sequence[Candidate]) -> bool:
        """Whether these would be enough, if they were free."""
        if len(fitting) < self.needed(len(fitting)):
            return False
        return len({candidate.host for candidate in fitting}) >= self.hosts

    def choose(self, free: Iterable[Candidate], fitting: int) -> tuple[str, ...] | None:
        """Names to take of `free`, or None. `fitting`: how many fit, free or not, for
        `all`. The least busy come first, one of each host in turn."""
        by_host: dict[str, list[Candidate]] = defaultdict(list)
        for candidate in sorted(free, key=lambda one: (one.runs, one.name)):
            by_host[candidate.host].append(candidate)
        in_turn = sorted(
            (place, candidate.runs, candidate.name)
            for members in by_host.values()
            for place, candidate in enumerate(members)
        )
        needed = self.needed(fitting)
        if len(in_turn) < needed or len(by_host) < self.hosts:
            return None
        return tuple(sorted(name for _, _, name in in_turn[:needed]))

    def __str__(self) -> str:
        if self.names:
            return "agents " + ", ".join(self.names)
        which = f" labelled {self._label_text()}" if self.labels else ""
        if self.hosts > 1:
            which += f" on {self.hosts} hosts"
        if self.count is None:
            return f"all agents{which}" if which else "at least one agent"
        return f"{self.count} agent{'s' * (self.count != 1)}{which}"

    def _label_text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.labels.items())


def first_of_each_host(
    agents: Sequence[str], hosts: Mapping[str, str]
) -> frozenset[str]:
    """`hosts`: agent -> host id; an agent of unknown host counts as its only one."""
    firsts: dict[str, str] = {}
    for agent in agents:
        firsts.setdefault(hosts.get(agent) or f"agent {agent}", agent)
    return frozenset(firsts.values())
