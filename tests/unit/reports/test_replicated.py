# SPDX-License-Identifier: Apache-2.0
"""Which server an agreement of a 389-DS supplier means."""

from __future__ import annotations

import pytest

from ldapslam.reports.rules.reconciliation import sent_to
from ldapslam.results.facts import Observation, Reading

SUPPLIER = "ldap://ds1.example.com"


def sent(place: str, servers: dict[str, dict[str, str]]) -> dict[str, int]:
    """Of 5 changes that the supplier has sent to `place`; URI -> settings."""
    observations = {
        uri: Observation.parsed({"facts": {"settings": settings}})
        for uri, settings in servers.items()
    }
    observations[SUPPLIER] = Observation(
        before=Reading(sent={place: 100}), after=Reading(sent={place: 105})
    )
    return dict(sent_to(observations))


OWN = {"nsslapd-localhost": "box", "nsslapd-port": "389", "nsslapd-securePort": "636"}


@pytest.mark.parametrize(
    ("place", "uri", "settings"),
    [
        ("ds2.example.com:389", "ldap://ds2.example.com", {}),
        ("ds2.example.com:636", "ldaps://ds2.example.com", {}),
        ("box:389", "ldaps://ds2.example.com", OWN),
        ("box:3389", "ldap://ds2.example.com:3389", OWN),
        ("box:636", "ldap://ds2.example.com", {**OWN, "nsslapd-security": "on"}),
        (
            "ds2.example.com:636",
            "ldap://ds2.example.com",
            {**OWN, "nsslapd-security": "on"},
        ),
        ("localhost:3389", "ldap://127.0.0.1:3389", {}),
    ],
)
def test_an_agreement_means_a_server_by_its_address_or_its_own_name(
    place: str, uri: str, settings: dict[str, str]
) -> None:
    assert sent(place, {uri: settings}) == {uri: 5}


@pytest.mark.parametrize(
    ("place", "servers"),
    [
        pytest.param(
            "localhost:389", {"ldap://localhost:3389": OWN}, id="a container's own port"
        ),
        pytest.param(
            "box:636", {"ldap://ds2.example.com": OWN}, id="a port that is closed"
        ),
        pytest.param(
            "box:389",
            {"ldap://localhost:3389": OWN, "ldap://localhost:3390": OWN},
            id="two of one name",
        ),
    ],
)
def test_a_place_that_may_be_another_server_is_nobodys(
    place: str, servers: dict[str, dict[str, str]]
) -> None:
    assert sent(place, servers) == {}
