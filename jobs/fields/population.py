# SPDX-License-Identifier: Apache-2.0
"""The record of a population: what a directory has to hold for a run, in a small file.

`ldapslam data fingerprint --save FILE` writes one, a job names it, and the pre-flight
reads the sampled entries on every server. JSON, schema `ldapslam.population/1`:

    {"schema": …, "base": DN, "entries": N, "fingerprint": HEX, "ignored": [NAME…],
     "sample": {DN: HEX…}}

A digest is that of one entry, 16 octets, the fingerprint that of all entries; of what,
is in directory/entry_digest.py. Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.requests.dn import check_dn

SCHEMA = "ldapslam.population/1"
#: More would make the pre-flight a load of its own.
MAX_SAMPLE = 10_000

_FINGERPRINT = re.compile("[0-9a-f]{64}")
_DIGEST = re.compile("[0-9a-f]{32}")
_HINT = "`ldapslam data fingerprint SOURCE --save FILE` makes one"


@dataclass(frozen=True, slots=True)
class PopulationRecord:
    """A population, and some of its entries."""

    #: DN at and below which it lies.
    base: str
    entries: int
    fingerprint: str
    #: DN and digest, in hex, of entries drawn by a hash of their DNs.
    sample: tuple[tuple[str, str], ...]
    #: Attributes that no digest is of.
    ignored: tuple[str, ...] = ()

    def to_text(self) -> str:
        document = {
            "schema": SCHEMA,
            "base": self.base,
            "entries": self.entries,
            "fingerprint": self.fingerprint,
            "ignored": list(self.ignored),
            "sample": dict(self.sample),
        }
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def parse_record(text: str, name: str) -> PopulationRecord:
    """The record in a file's text; Fault when it is none."""
    try:
        document = json.loads(text)
        text.encode()
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise expected(f"a population's record ({SCHEMA})", name, _HINT)
    try:
        return _record(document)
    except (KeyError, TypeError, AttributeError, ValueError, Fault) as error:
        raise Fault(f"{name!r} is no whole population's record: {error}", _HINT) from (
            None
        )


def _record(document: dict[str, Any]) -> PopulationRecord:
    sample, ignored = document["sample"], document["ignored"]
    if not 0 < len(sample) <= MAX_SAMPLE:
        raise Fault(f"its sample has {len(sample):,} entries", "")
    for dn, digest in sample.items():
        check_dn(dn).encode()
        if not _DIGEST.fullmatch(digest):
            raise Fault(f"{digest!r} is no digest", "")
    if not _FINGERPRINT.fullmatch(document["fingerprint"]):
        raise Fault("its fingerprint is none", "")
    entries = document["entries"]
    if type(entries) is not int or entries < len(sample):
        raise Fault(f"it has {entries!r} entries", "")
    if not (isinstance(ignored, list) and all(isinstance(one, str) for one in ignored)):
        raise Fault("`ignored` is no list of names", "")
    check_dn(document["base"]).encode()
    return PopulationRecord(
        base=document["base"],
        entries=entries,
        fingerprint=document["fingerprint"],
        sample=tuple(sample.items()),
        ignored=tuple(ignored),
    )
