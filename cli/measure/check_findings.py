# SPDX-License-Identifier: Apache-2.0
"""What the samples of `check` say of the run to come: warnings with remedies. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ldapslam.cli.console import us_text
from ldapslam.cli.measure.check_samples import Met
from ldapslam.jobs.doubts import requests_of_clients
from ldapslam.jobs.fields.remedies import UNTOLD, empty_remedy, remedy_of
from ldapslam.jobs.fields.result_codes import code_title
from ldapslam.jobs.fields.thresholds import PERCENTILES, parse_threshold
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.controls import UPDATES
from ldapslam.jobs.operations.search import Search
from ldapslam.jobs.plan import measure_span
from ldapslam.jobs.requests.dn import is_of_server
from ldapslam.reports.uncertainty import FEWEST_BATCHES

#: Of the successful searches.
_EMPTY_SHARE = 0.5
#: A search that takes longer, and returns fewer entries, looks at many.
_SLOW_US = 100_000.0
_FEW_ENTRIES = 100.0

_SUCCESS = 0
_INVALID_CREDENTIALS, _INSUFFICIENT_ACCESS = 49, 50


def findings(stream: Stream, met: Sequence[Met], who: str) -> Iterator[str]:
    """The warnings on a stream's samples; `who` its connections are bound as."""
    by_operation: dict[str, list[Met]] = defaultdict(list)
    for one in met:
        by_operation[one.operation].append(one)
    for name, of_servers in by_operation.items():
        about = f"{stream.name}.{name}"
        bodies = (one.step.body for one in stream.requests if one.name == name)
        searches = [one for one in bodies if isinstance(one, Search)]
        yield from _bad_codes(about, of_servers, who, searches)
        yield from _no_answers(about, of_servers)
        if of_servers[0].kind == "search":
            yield from _no_entries(about, of_servers, searches)
            yield from _slow(about, of_servers, searches)


def _where(met: Iterable[Met], all_of: Sequence[Met]) -> str:
    """The servers, unless they are all that there are."""
    named = [one.server for one in met]
    return "" if len(named) == len(all_of) else f" on {', '.join(named)}"


def _bad_codes(
    about: str, met: Sequence[Met], who: str, searches: Sequence[Search]
) -> Iterator[str]:
    size_limit = max((one.size_limit for one in searches), default=0)
    totals: Counter[int] = Counter()
    for one in met:
        totals.update(one.unexpected)
    completed = sum(one.counts["completed"] for one in met)
    kind, is_rehearsal = met[0].kind, met[0].is_rehearsal
    for code, responses in totals.most_common():
        if is_rehearsal and code in UNTOLD:
            continue
        remedy = remedy_of(code, kind, who, size_limit)
        if code == _INVALID_CREDENTIALS:
            remedy += "; no more of these binds were tried, as servers lock accounts"
        if is_rehearsal and code == _SUCCESS:
            remedy = (
                "the server takes modifies that delete what is not there, so it may "
                "have noted a change; try no writes (--samples 0)"
            )
        if is_rehearsal and code == _INSUFFICIENT_ACCESS and kind != "modify":
            remedy = f"{who} may not modify them, so perhaps not {kind} either"
        where = _where((one for one in met if one.unexpected[code]), met)
        said = next((one.messages[code] for one in met if code in one.messages), "")
        yield (
            f"{about}: {responses} of {completed} requests ended with "
            f"{code_title(code)}{where}"
            + f' ("{said}")' * bool(said)
            + f": {remedy}" * bool(remedy)
        )


def _no_answers(about: str, met: Sequence[Met]) -> Iterator[str]:
    silent = [one for one in met if one.counts["timed_out"] + one.counts["unresolved"]]
    count = sum(one.counts["timed_out"] + one.counts["unresolved"] for one in silent)
    if count:
        yield (
            f"{about}: {count} requests had no response in time{_where(silent, met)}: "
            "is the server at work on something else, or the search without an index?"
        )


def _no_entries(
    about: str, met: Sequence[Met], searches: Sequence[Search]
) -> Iterator[str]:
    found = [one for one in met if _is_mostly_empty(one)]
    if found:
        succeeded = sum(one.counts["succeeded"] for one in found)
        empty = sum(one.counts["empty"] for one in found)
        references = sum(one.counts["references"] for one in found)
        remedy = empty_remedy(" ".join(one.about for one in searches), references)
        yield (
            f"{about}: {empty} of {succeeded} searches found nothing"
            f"{_where(found, met)}: {remedy}; where it is meant so, set the threshold "
            f"{about}.empty"
        )


def _is_mostly_empty(one: Met) -> bool:
    """More than the default threshold allows."""
    return one.counts["empty"] > _EMPTY_SHARE * one.counts["succeeded"]


def _slow(about: str, met: Sequence[Met], searches: Sequence[Search]) -> Iterator[str]:
    slow = [
        one
        for one in met
        if (one.median_us or 0) > _SLOW_US
        and (one.entries_per_search or 0) < _FEW_ENTRIES
    ]
    if slow:
        filters = "".join(one.filter for one in searches)
        names = dict.fromkeys(re.findall(r"\(([\w;.-]+)[~<>:]?=", filters))
        longest_us = max(one.median_us or 0 for one in slow)
        yield (
            f"{about}: the median of the searches is {us_text(longest_us)}"
            f"{_where(slow, met)}, for few entries: has the server an index of "
            f"{', '.join(names) or 'what is searched by'}?"
        )


def untried(stream: Stream, names: Iterable[str]) -> dict[str, str]:
    """Operation that no plan of samples has -> why; `names`: those that it has."""
    if stream.python is not None:
        why = f"the class {stream.python.class_path} makes its requests itself"
        return dict.fromkeys(stream.python.operations, why)
    if stream.trace is not None:
        return {"replay": "the requests are a log's"}
    tried = set(names)
    reasons: dict[str, str] = {}
    for request in stream.requests:
        if request.name in tried:
            continue
        body = request.step.body
        dn = getattr(body, "dn", None) or getattr(body, "under", None)
        if request.kind == "extended":
            reason = "it may change something"
        elif request.kind in UPDATES and dn and is_of_server(dn):
            reason = "its entry is the server's own, where no modify is safe"
        elif request.of is not None and request.kind != "abandon":
            reason = "its entries are those that the run adds"
        else:
            reason = "it follows what was not done"
        reasons.setdefault(request.name, reason)
    return reasons


def too_few_intervals(job: Job) -> Iterator[str]:
    """A warning where percentiles that are close to their limits cannot be told."""
    measure = measure_span(job.run)
    intervals = (measure.end_ns - measure.start_ns) // job.run.interval_ns
    statistics = (parse_threshold(text).statistic for text in job.thresholds)
    if intervals < FEWEST_BATCHES and any(one in PERCENTILES for one in statistics):
        yield (
            f"the measure phase has {intervals} intervals: thresholds on percentiles "
            f"are uncertain with fewer than {FEWEST_BATCHES}, unless the percentile is "
            "far from its limit; measure for longer, or make `run.interval` shorter"
        )


def expected_requests(
    job: Job, stream: Stream, met: Iterable[Met]
) -> dict[tuple[str, str], float]:
    """Stream and operation of a closed loop -> about how many requests are measured, by
    the times of the samples: of one client at a time, so a busy server has fewer."""
    medians_us: dict[str, list[float]] = defaultdict(list)
    for one in met:
        if one.median_us is not None:
            medians_us[one.operation].append(one.median_us)
    means_ns = {name: 1e3 * sum(of) / len(of) for name, of in medians_us.items()}
    return requests_of_clients(job, stream, means_ns)
