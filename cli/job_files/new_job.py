# SPDX-License-Identifier: Apache-2.0
"""`new`: a first job for a directory that is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.files import write_private
from ldapslam.cli.command import command
from ldapslam.cli.console import put, say
from ldapslam.cli.measure.one_line_options import (
    check_uri,
    compose_head,
    connection_options,
    in_words_of_options,
)
from ldapslam.cli.options import add_options, grouped, option

if TYPE_CHECKING:
    from ldapslam.directory.sample import Sample

#: Entries that are read, unless --sample says otherwise.
_SAMPLE = 2_000
#: The percentile of a job that is long enough.
_HIGHEST = 99.0


@command("new")
@click.argument("uri")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@add_options(
    connection_options,
    grouped(
        "The job",
        option("-b --base DN", "Where to look for entries; else the first suffix."),
        option(
            "--attribute NAME",
            "What to search by; else uid, sAMAccountName, mail or cn, or the attribute "
            "of the entries' RDNs: one that most of them have.",
        ),
        option(
            "-r --rate RATE",
            "Searches per second, in an open loop: 50/s.",
            default="50/s",
        ),
        option("-d --duration TIME", "Length of the measurement.", default="30s"),
        option(
            "--sample N",
            "Most entries that are read.",
            type=click.IntRange(1),  # 0 is no limit in LDAP
            default=_SAMPLE,
        ),
    ),
)
@in_words_of_options()
def new_command(uri: str, file: Path, **given: Any) -> ExitCode:
    """Write a first job for the directory at URI to FILE.

    Reads a sample of its entries, changes nothing, and makes a job that searches for
    them one by one. Their values are in a file beside FILE, which only you may read.

    \b
      ldapslam new ldap://ds1.example.com first.yaml
      ldapslam new ldaps://ds1 first.yaml -D uid=me,… -y FILE --ca-file ca.pem
    """
    from ldapslam.agent.admission.preflight import preflight, probes
    from ldapslam.directory.sample import sample_of
    from ldapslam.jobs.doubts import planned_requests
    from ldapslam.jobs.plan import agent_plan

    values_file = file.with_suffix(".values.txt")
    for one in (file, values_file):
        if one.exists():
            raise ConfigError(
                f"the file {str(one)!r} is there already",
                hint="remove it, or name another one",
            )
    check_uri(uri)
    job = compose_head(file.stem, [uri], given, "URI")
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
    wanted = f"({found.attribute}=[file:{values_file.name}])"
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
    # values of a directory are nobody else's business
    lines = [f"{_escaped(one)}\n" for one in found.values]
    write_private(values_file, "".join(lines).encode())
    write_private(file, job.text().encode())
    say(
        f"found {found.entries:,} entries below {found.base!r} by {found.attribute}"
        + f", {more}" * bool(more)
        + f"; their values are in {values_file} (--attribute takes another)\n"
        f"next: ldapslam check {file}, then ldapslam run {file}; "
        f"another server against this one: ldapslam gate {file} --new ldap://…"
    )
    put(str(file))
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
