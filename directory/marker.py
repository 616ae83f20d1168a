# SPDX-License-Identifier: Apache-2.0
"""The marker entry: a directory says itself that it may be loaded. Pure.

With `--require-marker cn=ldapslam-allowed` an agent loads a server only if an entry of
that RDN stands directly below each naming context that the job touches. It is read
before every run, as the run's own identity, and counted as a control operation.

A job touches the contexts of its requests' DNs. Where a DN is not known before the run
(drawn whole, from a search or a log, or a class's own), it touches every context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldapslam.base.errors import ConfigError, TargetMarkerMissing
from ldapslam.base.fault import Fault
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.requests.dn import check_dn, plain_dn, split_rdn

#: Requests that name no entry, nor change one.
_WITHOUT_ENTRY = ("unbind", "abandon")


def parse_marker(text: str) -> str:
    """One RDN; ConfigError when it is none."""
    try:
        check_dn(text)
    except Fault as error:
        raise ConfigError(f"require-marker: {error}") from error
    rdn, parent = split_rdn(text)
    if not rdn or parent:
        raise ConfigError(
            f"require-marker: expected one RDN, got {text!r}",
            hint="such as cn=ldapslam-allowed: it is looked for below each naming "
            "context",
        )
    return text


@dataclass(frozen=True)
class Marker:
    """What must be there for one run of one agent."""

    rdn: str
    job: Job

    def entries(self, uri: str, naming_contexts: Sequence[str]) -> Iterator[str]:
        """DNs of the entries that must be on this server; TargetMarkerMissing without
        its contexts."""
        wanted = touched_contexts(self.job, uri, naming_contexts)
        if wanted is None:
            raise TargetMarkerMissing(
                uri,
                f"it does not tell its naming contexts, below which {self.rdn!r} would "
                "be looked for",
                hint="let the run's identity read namingContexts of the root DSE",
            )
        for context in wanted:
            yield f"{self.rdn},{context}"

    def missing(self, uri: str, dn: str, reason: str) -> TargetMarkerMissing:
        return TargetMarkerMissing(
            uri,
            f"the marker entry {dn!r} could not be read: {reason}",
            hint="the directory's administrator adds that entry, of any object class "
            "that the run's identity may read, where load is welcome; or the agent's "
            "operator leaves `require-marker` out",
        )


def touched_contexts(
    job: Job, uri: str, naming_contexts: Sequence[str]
) -> list[str] | None:
    """Those of the server's contexts that the job touches; None when it tells none."""
    known = [(plain_dn(one), one) for one in naming_contexts if one]
    touched: list[str] = []
    for stream in job.streams:
        only_waits = stream.python is not None and not stream.python.needs_target
        if uri not in job.targets[stream.target] or only_waits:
            continue
        for dn in _named_dns(stream):
            if dn == "":
                continue  # the root DSE
            if not known:
                return None
            inside = [one for plain, one in known if dn and _is_within(dn, plain)]
            # the longest: a context may lie within another one
            found = [max(inside, key=len)] if inside else [one for _, one in known]
            touched += found
    return list(dict.fromkeys(touched))


def _named_dns(stream: Stream) -> Iterator[str | None]:
    """The constant end of each DN that the stream's requests name; None: not known."""
    if stream.python is not None or stream.trace is not None:
        yield None
        return
    for request in stream.requests:
        step = request.step
        if step.kind in _WITHOUT_ENTRY:
            continue
        body = step.body
        names = [
            name
            for field in ("base", "dn", "under", "new_superior")
            if (name := getattr(body, field, None)) is not None
        ]
        is_root = step.kind == "search" and getattr(body, "scope", "") == "base"
        yield from (_constant_end(name, is_root=is_root) for name in names)
        if not names:
            yield None


def _constant_end(dn: str, *, is_root: bool) -> str | None:
    if dn == "":
        # below the root lies everything
        return "" if is_root else None
    return plain_dn(dn.rpartition("]")[2]) or None


def _is_within(dn: str, context: str) -> bool:
    return dn == context or dn.endswith(f",{context}")
