# SPDX-License-Identifier: Apache-2.0
"""The generator's programs of a population: agent/csrc/ldif.h has the instructions.

What is referred to (in a DN, by {attribute}, from below, in a side file) is put into a
slot before the entry's body; everything else is drawn where its line stands. Each line
draws from random numbers of its own, by its place in the template: that a value is
referred to, or a side file wanted, changes no other value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ldapslam.base.fault import Collected
from ldapslam.jobs.entries import ldif_code
from ldapslam.jobs.entries.ldif_code import NO_NAMES, NO_PARENT
from ldapslam.jobs.entries.population import Population
from ldapslam.jobs.entries.population_entry import EntryCoder
from ldapslam.jobs.entries.population_settings import ProgramSettings, Sources
from ldapslam.jobs.requests.template import ValueSource


@dataclass(frozen=True)
class NodeProgram:
    """struct slam_ldif_node."""

    parent: int
    count: int
    first_index: int
    first_name: int
    seed: int
    program: bytes


@dataclass(frozen=True)
class PopulationProgram:
    """struct slam_ldif_config, but for what is of the machine."""

    seed: int
    nodes: tuple[NodeProgram, ...]
    sources: tuple[ValueSource, ...]
    first_names: int = NO_NAMES
    last_names: int = NO_NAMES


def compile_population(
    population: Population, settings: ProgramSettings
) -> PopulationProgram:
    """The programs of all nodes; Faults name the lines that cannot be compiled."""
    sources = Sources(settings)
    coders: list[EntryCoder] = []
    for node in population.nodes:
        parent = None if node.parent is None else coders[node.parent]
        coders.append(EntryCoder(node, parent, sources, settings))
    # A body asks the nodes above for slots: heads are whole once all bodies are.
    bodies, found = [], Collected()
    for coder in coders:
        with found.each():
            bodies.append(coder.body())
    found.stop()
    nodes = []
    names = 0
    for node, coder, body in zip(population.nodes, coders, bodies, strict=True):
        kind = "branch" if node.is_branch else "template"
        nodes.append(
            NodeProgram(
                parent=NO_PARENT if node.parent is None else node.parent,
                count=node.count,
                first_index=node.first_index,
                first_name=names,
                seed=_seed(settings.seed, kind, node.name),
                program=b"".join((*coder.head, ldif_code.body(), body)),
            )
        )
        names += node.total if node.has_names else 0
    first, last = sources.names
    return PopulationProgram(
        seed=_seed(settings.seed, "names", ""),
        nodes=tuple(nodes),
        sources=tuple(sources.found),
        first_names=first,
        last_names=last,
    )


def _seed(seed: int, kind: str, name: str) -> int:
    digest = hashlib.sha256(f"{seed}\0{kind}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")
