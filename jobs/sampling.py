# SPDX-License-Identifier: Apache-2.0
"""Plans that send a few requests of each operation, for `check`. Pure.

The requests are those of the job, drawn from its patterns and templates; the load is
not: one connection to each server sends them one after the other, without pauses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import groupby, product
from operator import itemgetter

from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import MEASURE, AgentPlan, StreamPlan, agent_plan
from ldapslam.jobs.run_plan import PhaseSpan
from ldapslam.jobs.scripts import ScriptPlan

#: Of one stream's samples, and of a response.
LIMIT_NS = 15 * NS_PER_S
_TIMEOUT_NS = 5 * NS_PER_S
_DRAIN_NS = NS_PER_S


def sample_plans(
    job: Job, each: int, unusable: Collection[str] = ()
) -> Iterator[AgentPlan]:
    """A plan for each stream whose requests can be sampled, on its servers that are not
    unusable: `each` sessions of every kind for each server. The plan has a stream for
    each server and kind of session, all of that name."""
    whole = agent_plan(job, 0, 1, job.seed or 0, is_rehearsal=True)
    for stream in whole.streams:
        uris = [
            uri
            for uri in stream.uris[: len(stream.uris) - stream.watched]
            if uri not in unusable
        ]
        parts = tuple(_parts(replace(stream, uris=tuple(uris), watched=0), each))
        if stream.python is None and stream.replay is None and uris and parts:
            yield replace(
                whole,
                boundaries_ns=(LIMIT_NS,),
                phases=(PhaseSpan(MEASURE, 0, LIMIT_NS),),
                measure_start_ns=0,
                measure_end_ns=LIMIT_NS,
                ramp_up_ns=0,
                grace_ns=_DRAIN_NS,
                streams=parts,
            )


def _parts(stream: StreamPlan, each: int) -> Iterator[StreamPlan]:
    scripts = [
        # neither pauses nor repeats
        ScriptPlan(1, tuple((n, 0) for n, _ in groupby(script.steps, itemgetter(0))))
        for script in stream.scripts
        if script.steps
    ]
    for script, uri in product(scripts, stream.uris):
        yield replace(
            stream,
            uris=(uri,),
            connection=replace(stream.connection, connect_spacing_ns=0),
            request_timeout_ns=min(stream.request_timeout_ns, _TIMEOUT_NS),
            model="closed",
            connections=1,
            first_connection=0,
            connection_stride=1,
            total_connections=1,
            in_flight=1,
            think_time_ns=0,
            profile=(),
            max_backlog=0,
            total_operations=each,
            start_ns=0,
            end_ns=0,
            scripts=(script,),
        )
