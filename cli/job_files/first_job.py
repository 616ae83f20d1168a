# SPDX-License-Identifier: Apache-2.0
"""A first job for a directory that is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldapslam.base.errors import ExitCode
from ldapslam.cli.console import say
from ldapslam.cli.job_files.written import job_name, write_job
from ldapslam.cli.measure.quick_options import Options, check_uri, compose_head

if TYPE_CHECKING:
    from ldapslam.directory.sample import Sample

#: The percentile of a job that is long enough.
_HIGHEST = 99.0


def new_for_directory(uri: str, output: Path | None, given: Options) -> ExitCode:
    """Write a job that searches for entries of the directory one by one, and a file of
    their values."""
    from ldapslam.agent.admission.preflight import preflight, probes
    from ldapslam.directory.sample import sample_of
    from ldapslam.jobs.doubts import planned_requests
    from ldapslam.jobs.plan import agent_plan

    name = job_name(output, "lookups")
    values_file = f"{name}.values.txt"
    check_uri(uri)
    job = compose_head(name, [uri], given, "URI")
    stream, search = ("streams", 0), ("streams", 0, "operations", 0, "search")
    for path, value, words in (
        (("run", "warm_up"), "3s", ""),
        (("run", "duration"), given["duration"], "-d"),
        ((*stream, "name"), "lookups", ""),
        ((*stream, "target"), "directory", ""),
        ((*stream, "load", "rate"), given["rate"], "-r"),
        ((*stream, "load", "connections"), 8, ""),
        ((*search, "base"), given["base"] or "", "-b"),
        ((*search, "filter"), f"({given['attribute'] or 'uid'}=*)", "--attribute"),
    ):
        job.put(path, value, words)
    # its connections are those of a run
    planned_job = job.load()
    plan = agent_plan(planned_job, agent_index=0, agent_count=1, seed=0)
    [planned] = plan.streams
    access = planned.connection.resolved()
    for probe in probes(plan):
        preflight(probe)  # which says best why a server cannot be used
    found = sample_of(uri, access, given["base"], given["attribute"], given["sample"])
    wanted = f"({found.attribute}=[file:{values_file}])"
    job.put((*search, "base"), found.base, "-b")
    job.put((*search, "filter"), wanted, "")
    job.comments["run"] = "Three seconds at full rate, then what counts."
    job.comments["thresholds"] = "What must hold for PASS. Others hold by default."
    requests = planned_requests(planned_job, planned_job.streams[0])["search"]
    job.tree["thresholds"] = [
        *(f"lookups.search.{one} < 100ms" for one in _percentile_of(requests)),
        "lookups.search.empty < 1%",
    ]
    more = _what_more(found, given["bind_dn"] or given["sasl"])
    job.head = (
        f"Searches for {len(found.values):,} entries of {found.base}, one by one.",
        *([f"They are {more}."] if more else ()),
        "`ldapslam describe` explains what a job may say.",
    )
    lines = [f"{_escaped(one)}\n" for one in found.values]
    write_job(output, job.text(), {values_file: "".join(lines).encode()})
    say(
        f"found {found.entries:,} entries below {found.base!r} by {found.attribute}"
        + f", {more}" * bool(more)
        + f"; their values are in {values_file} (--attribute takes another)"
    )
    if output is not None:
        say(
            f"next: ldapslam check {output}, then ldapslam run {output}; another "
            f"server against this one: ldapslam gate {output} --new ldap://…"
        )
    return ExitCode.PASS


def _percentile_of(requests: float) -> list[str]:
    """The highest percentile, to p99, that so many requests can tell, if any."""
    from ldapslam.jobs.doubts import samples_to_plan
    from ldapslam.jobs.fields.thresholds import PERCENTILES

    names = [name for name, p in PERCENTILES.items() if p <= _HIGHEST]
    return [one for one in names if requests >= samples_to_plan(PERCENTILES[one])][-1:]


def _what_more(found: Sample, identity: str | None) -> str:
    """Which part of the entries a sample is; empty where it is all of them."""
    from ldapslam.directory.sample import SAMPLE

    if found.ended_by is None:
        return ""
    if found.ended_by == SAMPLE:
        return f"a sample of the first {found.entries:,}: there are more (--sample N)"
    who = "anonymous" if identity is None else identity
    text = (
        f"all that the server gave, as {who} has a {found.ended_by} there: the job "
        "searches for these alone. An identity without it (-D) reads more"
    )
    if pattern := _pattern_of(found.values):
        text += (
            f"; these are numbered, so ({found.attribute}={pattern}) as the filter, "
            "with the highest number that there is, reaches all"
        )
    return text


def _pattern_of(values: Sequence[str]) -> str:
    """The pattern that draws these, where they differ by a number alone."""
    found = [
        re.fullmatch(r"([\w.@-]*?)(\d{1,9})([A-Za-z.@_-]*)", one) for one in values
    ]
    parts = {(one[1], one[3]) for one in found if one}
    if len(values) < 2 or len(parts) != 1 or None in found:
        return ""
    digits = [one[2] for one in found if one]
    has_zeros = any(one[0] == "0" and len(one) > 1 for one in digits)
    if has_zeros and len(set(map(len, digits))) > 1:
        return ""
    numbers = sorted(map(int, digits))
    zeros = f"%{'0' * len(digits[0])}" * has_zeros
    [(before, after)] = parts
    return f"{before}[{numbers[0]}-{numbers[-1]}{zeros}]{after}"


def _escaped(value: str) -> str:
    """As a filter has it (RFC 4515)."""
    from ldap.filter import escape_filter_chars

    escaped: str = escape_filter_chars(value)
    return escaped
