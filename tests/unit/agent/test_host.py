# SPDX-License-Identifier: Apache-2.0
"""Facts and figures of the host are there, in range, and JSON."""

from __future__ import annotations

import json

import pytest

from ldapslam.agent.host import HostSampler, host_facts, shares_host, usable_cores


def test_facts_are_json_and_name_the_host() -> None:
    facts = json.loads(json.dumps(host_facts()))
    assert facts["cores_usable"] == usable_cores() >= 1
    assert facts["memory_bytes"] > 0
    assert facts["libldap"].startswith("OpenLDAP 2.")
    assert {"host_name", "cpu_model", "kernel", "clock_source", "python"} <= set(facts)


def test_figures_are_shares() -> None:
    sampler = HostSampler()
    sum(range(200_000))
    for figures in (sampler.sample(), sampler.sample()):
        for share in (figures.cpu_utilisation, figures.steal_share):
            assert 0 <= share <= 1


def test_hiccups_are_those_since_the_last_sample() -> None:
    told = iter([(900, 0), (60_000, 0), (7_000_000, 9_000_000)])
    sampler = HostSampler(lambda: next(told))
    first, second = sampler.sample(), sampler.sample()
    assert (first.hiccup_max_ns, first.stalled_ns) == (60_000, 0)
    assert (second.hiccup_max_ns, second.stalled_ns) == (7_000_000, 9_000_000)
    assert not HostSampler().sample().HasField("hiccup_max_ns")


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["127.0.0.1"], True),
        (["::1"], True),
        (["/run/slapd/ldapi"], True),
        (["192.0.2.7", "127.0.0.2"], True),
        (["192.0.2.7"], False),
        ([], False),
    ],
)
def test_loopback_and_sockets_are_this_host(
    addresses: list[str], expected: bool
) -> None:
    assert shares_host(addresses) is expected
