# SPDX-License-Identifier: Apache-2.0
"""Changes that reached 389-DS's replicas as requests of their suppliers. Pure.

Suppliers say how many they have sent to each replica, not of which kinds; a replica
counts them by kind among all that it was asked. Where the surplus of a replica's writes
is just what suppliers say they have sent, that is what it is, kind by kind. Where it is
not, nobody can tell which of its writes were sent by whom, and nothing is explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ldapslam.base.uri import DEFAULT_PORTS, canonical_host

WRITES = ("add", "delete", "modify", "modify_dn")


def sent_to(observations: Mapping[str, Any]) -> Counter[str]:
    """URI -> changes that were sent to it between the readings of its suppliers; those
    to a place that several servers may be are nobody's."""
    sent: Counter[str] = Counter()
    for observation in observations.values():
        before, after = (
            (observation.get(when) or {}).get("sent") or {}
            for when in ("before", "after")
        )
        for place, total in after.items():
            known = [
                uri
                for uri, one in observations.items()
                if _canonical(place) in _places(uri, one)
            ]
            if len(known) == 1:
                sent[known[0]] += total - before.get(place, 0)
    return sent


def explained(surplus: Mapping[str, int | None], sent: int) -> dict[str, int]:
    """Kind -> how much of its surplus was replicated; `surplus` is that of WRITES."""
    known = {kind: more for kind, more in surplus.items() if more is not None}
    if len(known) < len(surplus) or sum(known.values()) != sent:
        return {}
    if any(more < 0 for more in known.values()):
        return {}
    return known


def _places(uri: str, observation: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Hosts and ports by which an agreement may know the server: as the job has them,
    and by its own name and ports. These go with the job's host when its port is one of
    them: the address of a relay or a container has others behind it."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    port = str(parts.port or DEFAULT_PORTS.get(parts.scheme))
    settings = (observation.get("facts") or {}).get("settings") or {}
    own_ports = [str(settings.get("nsslapd-port", ""))]
    if str(settings.get("nsslapd-security", "")).lower() == "on":
        own_ports.append(str(settings.get("nsslapd-securePort", "")))
    places = {(host, port)}
    if own_name := str(settings.get("nsslapd-localhost", "")):
        places |= {(own_name, one) for one in (port, *own_ports)}
    if port in own_ports:
        places |= {(host, one) for one in own_ports}
    return {_canonical(f"{name}:{number}") for name, number in places if number}


def _canonical(place: str) -> tuple[str, str]:
    host, _, port = place.lower().rpartition(":")
    return canonical_host(host), port
