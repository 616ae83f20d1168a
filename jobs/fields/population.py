# SPDX-License-Identifier: Apache-2.0
"""The record of a population: what a directory has to hold for a run, in a small file.

`ldapslam data verify --save FILE` writes one, a job names it, and the pre-flight
reads the sampled entries on every server. JSON, schema `ldapslam.population/1`:

    {"schema": …, "base": DN, "entries": N, "fingerprint": HEX, "ignored": [NAME…],
     "sample": {DN: HEX…}}

A digest is that of one entry, 16 octets, the fingerprint that of all entries; of what,
is in directory/entry_digest.py. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.requests.dn import check_dn

SCHEMA: Final = "ldapslam.population/1"
#: More would make the pre-flight a load of its own.
MAX_SAMPLE = 10_000

_HINT = "`ldapslam data verify SOURCE --save FILE` makes one"


def _pairs(sample: Any) -> Any:
    return tuple(sample.items()) if isinstance(sample, dict) else sample


_Dn = Annotated[str, AfterValidator(check_dn)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True, defer_build=True))
class PopulationRecord:
    """A population, and some of its entries."""

    #: DN at and below which it lies.
    base: _Dn
    entries: int
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    #: DN and digest, in hex, of entries drawn by a hash of their DNs.
    sample: Annotated[
        tuple[tuple[_Dn, _Digest], ...],
        Field(min_length=1, max_length=MAX_SAMPLE),
        BeforeValidator(_pairs),
        PlainSerializer(dict),
    ]
    #: Attributes that no digest is of.
    ignored: tuple[str, ...] = ()
    schema: Literal["ldapslam.population/1"] = SCHEMA

    @model_validator(mode="after")
    def _has_its_sample(self) -> Self:
        if self.entries < len(self.sample):
            raise Fault(f"it has {self.entries} entries, fewer than its sample")
        return self

    def to_text(self) -> str:
        return _RECORD.dump_json(self, indent=1).decode() + "\n"


_RECORD = TypeAdapter(PopulationRecord)


def parse_record(text: str, name: str) -> PopulationRecord:
    """The record in a file's text; Fault when it is none."""
    try:
        return _RECORD.validate_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        if wrong["loc"] in ((), ("schema",)):
            raise expected(f"a population's record ({SCHEMA})", name, _HINT) from None
        place = ".".join(map(str, wrong["loc"]))
        reason = f"{name!r} is no whole population's record: {place}: {wrong['msg']}"
        raise Fault(reason, _HINT) from None
