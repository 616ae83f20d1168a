# SPDX-License-Identifier: Apache-2.0
"""What the samples of a stream met, as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ldapslam.cli.console import us_text
from ldapslam.cli.measure.check_samples import Met
from ldapslam.jobs.fields.result_codes import code_name, code_title
from ldapslam.reports.document import NOTHING, Field, Table, column, number, table
from ldapslam.reports.typeset import count, decimal

_SUCCESS = 0
_REFUSED_LATE = (16, 18)
#: What it says of an operation that its rehearsal got past access control.
_REHEARSED = {"modify": "may be modified", "add": "parents are there"}


def samples_table(stream: str, met: Sequence[Met], untried: Mapping[str, str]) -> Table:
    """`untried`: operation -> why it was not sent."""
    server: Field[Met] = column("Server", lambda one: one.server)
    has_servers = len({one.server for one in met}) > 1
    rehearsed = list(dict.fromkeys(one.operation for one in met if one.is_rehearsal))
    notes = [f"{name} was not tried: {why}." for name, why in untried.items()]
    if rehearsed:
        notes.append(
            f"Rehearsed, not sent: {', '.join(rehearsed)}: by a modify that "
            + (
                "should fail. A server took it: see the warnings."
                if any(one.is_rehearsal and one.codes[_SUCCESS] for one in met)
                else "cannot succeed. Nothing was changed."
            )
        )
    return table(
        f"samples-{stream}",
        f"Samples of {stream}",
        met,
        column("Operation", lambda one: one.operation),
        *[server] * has_servers,
        number("sent", lambda one: count(one.counts["sent"])),
        column("Results", lambda one: ", ".join(_results(one)) or NOTHING),
        number("entries per search", _entries),
        number("empty", lambda one: _empty(one)),
        # a refusal's time says nothing of the write's
        number("median", lambda one: us_text(_unless(one, one.median_us))),
        number("max", lambda one: us_text(_unless(one, one.max_us))),
        notes=notes,
    )


def _unless(one: Met, time_us: float | None) -> float | None:
    return None if one.is_rehearsal else time_us


def _entries(one: Met) -> str:
    found = one.entries_per_search
    return NOTHING if found is None else decimal(found, 2)


def _empty(one: Met) -> str:
    return count(one.counts["empty"]) if one.kind == "search" else NOTHING


def _results(one: Met) -> Iterator[str]:
    for code, responses in one.codes.most_common():
        if one.is_rehearsal and code in _REFUSED_LATE:
            text = _REHEARSED.get(one.kind, "entries are there")
        else:
            text = code_title(code) if code in one.unexpected else code_name(code)
        yield f"{responses} {text}"
    if silent := one.counts["timed_out"] + one.counts["unresolved"]:
        yield f"{silent} without a response"
