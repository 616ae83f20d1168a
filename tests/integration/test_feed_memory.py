# SPDX-License-Identifier: Apache-2.0
"""What a long file of values costs an agent: its bytes once, mapped by the engine."""

from __future__ import annotations

import psutil
import pytest

from support.fleet import FINAL, FleetOfProcesses, job_text
from support.lab import Lab

MIB = 1 << 20
FEW, MANY = 1_000, 1_000_000
#: Of a line; it ends with LF.
LINE_BYTES = 44
#: What two runs of the same job differ by, and the index of lines: 4 bytes each.
MARGIN_BYTES = 8 * MIB


def used_bytes(fleet: FleetOfProcesses, uri: str, lines: int) -> dict[str, int]:
    """What agent, engine's process and observer have for themselves while a job runs
    that draws from a file of so many lines."""
    feed = b"".join(b"%-*d\n" % (LINE_BYTES - 1, number) for number in range(lines))
    job = job_text(
        uri,
        duration="4s",
        clients=2,
        monitors=[{"host": "replica"}],
        streams=[
            {
                "name": "readers",
                "target": "replica",
                "load": {"clients": 2, "think_time": "5ms"},
                "operations": [{"search": {"base": "", "filter": "(cn=[file:feed])"}}],
            }
        ],
    )
    run_id = fleet.submit(job, files={"feed": feed})
    fleet.wait_for_load(run_id)
    agent = psutil.Process(fleet.processes["one"].pid)
    used = {
        name: process.memory_full_info().uss
        for process in (agent, *agent.children())
        for name in ("engine.process", "monitoring.process", "fleet_program")
        if name in " ".join(process.cmdline())
    }
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    return used


@pytest.mark.long
def test_file_of_a_million_lines_costs_its_bytes_once_per_agent(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    fleet.start("one")
    few = used_bytes(fleet, lab.supplier.uri, FEW)
    many = used_bytes(fleet, lab.supplier.uri, MANY)
    grown = {name: many[name] - few[name] for name in many}
    assert grown["fleet_program"] < MARGIN_BYTES  # the agent
    assert grown["monitoring.process"] < MARGIN_BYTES
    assert grown["engine.process"] < (MANY - FEW) * LINE_BYTES + MARGIN_BYTES
