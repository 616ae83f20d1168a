# SPDX-License-Identifier: Apache-2.0
"""The job type `replication_probe`: how long changes take to replicas, during a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from ldapslam.base import units
from ldapslam.base.fault import Fault
from ldapslam.base.units import Rate
from ldapslam.jobs.fields.sections import (
    Kind,
    Name,
    PositiveDuration,
    RateField,
    Section,
    Text,
    one_or_more,
)
from ldapslam.jobs.fields.texts import AttributeName
from ldapslam.jobs.requests.dn import check_dn
from ldapslam.jobs.types.base import JobType

_DEFAULT_RATE = units.parse_rate("5/s")


def _named_by_cn(dn: str) -> str:
    if not check_dn(dn).lower().lstrip().startswith("cn="):
        raise Fault(f"expected a DN that begins with cn=, got {dn!r}")
    return dn


class ReplicationProbeOptions(Section):
    """What is written, and who is to have it."""

    replicas: Annotated[
        list[Name], Field(min_length=1), BeforeValidator(one_or_more)
    ] = Field(examples=["replica"])
    """roles of `targets` whose servers are watched; one name, or a list"""
    dn: Annotated[Text, AfterValidator(_named_by_cn), Kind("DN")] = Field(
        examples=["'cn=probe,dc=example,dc=com'"]
    )
    """entry that is written, of one cn; it is added for the run, as a device, when it
    is not there"""
    attribute: AttributeName = "description"
    """its attribute that is replaced; the values are put back in the end"""
    rate: RateField = _DEFAULT_RATE
    """writes, evenly spaced whatever they take"""
    poll_ns: PositiveDuration | None = Field(default=None, examples=["20ms"])
    """read the entry on each replica so often; without it, replicas tell of changes
    (RFC 4533, or 389-DS's persistent search)"""


class ReplicationProbe(JobType[ReplicationProbeOptions]):
    """Writes a mark on the first server of the target and waits until each replica has
    it, for all marks at once: propagation time, as an operation of each replica. One
    process does both, so that one clock measures it."""

    name: ClassVar[str] = "replication_probe"
    Options: ClassVar[type[Section]] = ReplicationProbeOptions
    sets: ClassVar[tuple[str, ...]] = ("operations", "python", "load")

    def expand_among(
        self,
        options: ReplicationProbeOptions,
        stream: Mapping[str, Any],
        targets: Mapping[str, Any],
    ) -> dict[str, Any]:
        watched = [
            name
            for role in options.replicas
            for name in _operations(role, targets.get(role))
        ]
        rate: Rate = options.rate
        return {
            "python": {
                "class": self.python_class(),
                "operations": ["write", *watched],
                "watches": list(options.replicas),
                "options": {
                    "dn": options.dn,
                    "attribute": options.attribute,
                    "poll_ns": options.poll_ns,
                    "watch": watched,
                },
            },
            "load": {"open": {"rate": units.format_rate(rate), "connections": 1}},
        }


def _operations(role: str, uris: Any) -> list[str]:
    """A name for each server of a role, in its order."""
    number = len(uris) if isinstance(uris, list) else 1
    if number == 1:
        return [f"propagation-{role}"]
    return [f"propagation-{role}-{n + 1}" for n in range(number)]
