# SPDX-License-Identifier: Apache-2.0
"""The facts of runs: equal after the store, and of no other type than theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from ldapslam.base.errors import StoreRefused
from ldapslam.results.facts import AgentFacts, Facts, Manifest, MonitorFacts, Observed
from ldapslam.results.monitor_rows import describe_monitors, monitor_descriptions
from ldapslam.results.records import MonitorDescription
from ldapslam.results.store import Store
from support.store import RUN_ID, Scenario, run_record

COUNTS = {"ldap://a": {"bind": 1}}
OBSERVED: dict[str, Any] = {
    "observations": {
        "ldap://a": {
            "kind": "slapd",
            "facts": {"settings": {"olcThreads": "4"}, "unreadable": []},
            "before": {"operations": {"add": None}, "sent": {}, "started": None},
            "after": {"operations": {"add": 1}, "sent": {"b:389": 2}, "started": "x"},
            "control_operations": {"search": 1},
            "failure": "no answer",
        }
    },
    "replication": {
        "failure": "",
        "servers": ["ldap://a", "ldap://b"],
        "skipped": ["cn=log"],
        "within_s": 60.0,
        "converged": True,
        "after_s": 0.5,
        "trees": [
            {
                "suffix": "dc=x",
                "converged": True,
                "after_s": 0.5,
                "states": {"ldap://a": {"001": "csn"}},
                "behind": {"ldap://b": ["001"]},
                "stale": ["7"],
            }
        ],
        "content": {
            "sample": None,
            "compared": 3,
            "entries": {"ldap://a": 3},
            "difference_count": 1,
            "differences": [
                {
                    "server": "ldap://b",
                    "dn": "cn=y",
                    "difference": "different",
                    "attributes": ["sn"],
                }
            ],
        },
    },
    "observer_cost": {"cpu_s": 0.25},
}
MANIFEST = {
    **OBSERVED,
    "ldapslam": "0.1.0",
    "job_file": "job.yaml",
    "overrides": ["run.warm_up=1s"],
    "files": {"ca.pem": "5f1d"},
    "lab": {"server": "slapd"},
    "coordinator": {"host_name": "c"},
    "servers": {"ldap://a": {"vendor_name": "V", "addresses": ["::1"]}},
    "control_operations": COUNTS,
    "t0": {"mono_ns": 7, "boot_id": "boot"},
    "ending": {
        "state": "failed",
        "detail": "lost",
        "failure": {"class": "AgentLost"},
        "drained_ns": 5,
    },
    "adopted": ["2026-03-01T12:00:09Z"],
    "failure": {"class": "AgentLost", "values": {"seconds": 5.0}},
}
AGENT = {
    "host": {"host_name": "h", "cgroup_cpu_max": None, "cores": 4},
    "shares_host_with_target": True,
    "targets": [
        {
            "uri": "ldap://a",
            "vendor_name": "V",
            "naming_contexts": ["dc=x"],
            "bind_dn": None,
            "tls": True,
            "supported_control": ["1.2.3"],
            "population": {
                "fingerprint": "f",
                "entries": 9,
                "base": "dc=x",
                "sampled": 2,
            },
            "control_operations": {"bind": 1},
        }
    ],
    "control_operations": COUNTS,
    "later_operations": COUNTS,
    "replays": {
        "log": {
            "requests": {"search": 2},
            "count": 3,
            "sessions": 1,
            "connections": 1,
            "expected_codes": {"search": [32]},
            "skipped": [{"operation": "bind", "reason": "SASL", "count": 1}],
        }
    },
    "clean_up": {
        "entries": 2,
        "deleted": 1,
        "already_gone": 0,
        "left": 1,
        "left_entries": [{"dn": "cn=y", "reason": "busy"}],
        "seconds": 0.5,
        "error": None,
        "folder": "/spool",
    },
    "notes": {"mine": [{"any": ["thing", 1, None]}]},
    "python_streams": {"s": "my.Class"},
    "python_requests": COUNTS,
    "python_expected_codes": {"s": {"write": [68]}},
    "workers": 2,
    "connections": 4,
    "libldap": "OpenLDAP 2.6",
    "tls": "GnuTLS",
    "kernel_stamps": False,
    "realtime": True,
    "epoch": 3,
    "build": "0.1.0",
    "attempt": 5,
    "observer": "ended",
    "part": "started",
    "start_error_us": 1.5,
    "clock_offset_us": -2.0,
    "clock_offset_bound_us": 8.0,
    "clock_drift_us": 0.5,
}
MONITOR = {
    "kind": "host",
    "serves": {"db": ["ldap://a"], "": []},
    "boot_id": "boot",
    "kernel": None,
    "server": "slapd",
    "version": "2.6",
    "failure": "",
    "pid": 411,
    "load": [0.5, {"deep": True}],
}
KINDS: list[tuple[type[Facts], dict[str, Any]]] = [
    (Manifest, MANIFEST),
    (AgentFacts, AGENT),
    (MonitorFacts, MONITOR),
    (Observed, OBSERVED),
]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as store:
        store.create_run(run_record(Scenario(run={"manifest": {}})))
        yield store


def test_every_fact_is_equal_after_the_store(store: Store) -> None:
    store.set_manifest(RUN_ID, Manifest.parsed(MANIFEST))
    store.put_agent(RUN_ID, "load1", AgentFacts.parsed(AGENT))
    monitor = MonitorDescription("host h", (), MonitorFacts.parsed(MONITOR))
    describe_monitors(store, RUN_ID, "load1", [monitor])
    assert store.run(RUN_ID).manifest.document() == MANIFEST
    assert store.agents(RUN_ID)["load1"].document() == AGENT
    assert monitor_descriptions(store, RUN_ID) == [("load1", monitor)]
    assert monitor.facts.document() == MONITOR


@pytest.mark.parametrize(("kind", "document"), KINDS[:3])
def test_the_documents_here_have_every_fact(
    kind: type[Facts], document: dict[str, Any]
) -> None:
    assert document.keys() >= kind.model_fields.keys()


def _wrong(value: Any) -> Iterator[Any]:
    """The value with another type in each of its places."""
    yield [] if isinstance(value, dict) else {}
    if isinstance(value, dict):
        for name, part in value.items():
            yield from ({**value, name: wrong} for wrong in _wrong(part))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from (
                [*value[:place], wrong, *value[place + 1 :]] for wrong in _wrong(part)
            )
    elif isinstance(value, bool | str):
        yield 1
    elif value is not None:
        yield "1"
        yield True


#: Places of what others say of themselves: all of JSON.
_OPEN = {"host", "notes", "facts", "failure", "coordinator", "pid", "load"}


def _closed(value: Any) -> Any:
    """The value without what may be of any type."""
    if isinstance(value, dict):
        return {name: _closed(one) for name, one in value.items() if name not in _OPEN}
    return [_closed(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("kind", "document"), KINDS)
def test_no_fact_is_of_another_type(
    kind: type[Facts], document: dict[str, Any]
) -> None:
    closed = _closed(document)
    assert kind.parsed(closed).document() == closed
    for wrong in _wrong(closed):
        with pytest.raises(ValidationError):
            kind.parsed(wrong)
    if kind is not MonitorFacts:
        with pytest.raises(ValidationError):
            kind.parsed({**document, "unknown": 1})


@pytest.mark.parametrize("name", ["host", "coordinator"])
def test_what_others_say_is_an_object(name: str) -> None:
    kind = AgentFacts if name == "host" else Manifest
    wrongs: list[Any] = ["mars", [], 1, None]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            kind.parsed({name: wrong})


def test_a_stored_document_of_another_ldapslam_is_refused_in_one_sentence() -> None:
    with pytest.raises(StoreRefused, match=r"not those of this ldapslam: workers: "):
        AgentFacts.stored({"workers": "two"})
