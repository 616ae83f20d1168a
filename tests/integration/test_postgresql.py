# SPDX-License-Identifier: Apache-2.0
"""The store in a PostgreSQL server: the same, and one coordinator owns it at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ldapslam.base.errors import StoreTaken
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.reports.formats.render import result_json
from ldapslam.reports.summarise import summarise
from ldapslam.results.facts import AgentFacts, Manifest
from ldapslam.results.store import Store
from support.intervals import stored_intervals
from support.postgresql import end_backends, execute, postgresql
from support.store import RUN_ID, Scenario, fill, intervals, run_record

pytestmark = pytest.mark.long

SMALL = Scenario(measure_s=2, searches_per_s=20)
_LOCK_HOLDER = "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    execute(server, "DROP SCHEMA public CASCADE")
    execute(server, "CREATE SCHEMA public")
    return server


def test_a_run_is_the_same_as_in_a_file(url: str) -> None:
    with Store.open("sqlite://") as file, Store.open(url) as store:
        fill(store, SMALL)
        assert stored_intervals(store, RUN_ID) == list(intervals(SMALL))
        assert file.import_run(store.export_run(RUN_ID)) == RUN_ID
        assert stored_intervals(file, RUN_ID) == stored_intervals(store, RUN_ID)
        found, expected = (result_json(summarise(one, RUN_ID)) for one in (store, file))
    assert found == expected


def test_a_second_delivery_and_a_second_report_change_nothing(url: str) -> None:
    with Store.open(url) as store:
        fill(store, SMALL)
        written = stored_intervals(store, RUN_ID)
        again = store.add_interval(RUN_ID, written[0].record)
        assert (again.is_new, again.refusal) == (False, "")
        other = replace(written[0], end_ns=written[0].end_ns + 1)
        assert "has another report" in store.add_interval(RUN_ID, other.record).refusal
        assert stored_intervals(store, RUN_ID) == written
        assert store.runs(only_unjudged=True) == []


def test_what_is_new_after_the_end_is_counted_until_a_verdict_is_of_it(
    url: str,
) -> None:
    _, late, *_, last = [one for one in intervals(SMALL) if one.agent == "load1"]
    with Store.open(url) as store:
        fill(store, replace(SMALL, lost=frozenset({("load1", late.index)})))
        assert store.run(RUN_ID).unjudged == 0
        for _ in range(2):
            store.add_interval(RUN_ID, late.record)
        assert store.seal_part(RUN_ID, "load1", last.attempt)
        assert not store.seal_part(RUN_ID, "load1", last.attempt)
        [found] = store.runs(only_unjudged=True)
        assert found.unjudged == 2
        # the judge knew of the first one
        store.set_verdict(RUN_ID, "PASS", unjudged=1)
        assert store.run(RUN_ID).unjudged == 1
        store.set_verdict(RUN_ID, "PASS", unjudged=1)
        assert store.runs(only_unjudged=True) == []


def test_a_run_that_is_still_being_committed_is_not_created_twice(url: str) -> None:
    """Its connection was lost, and the server does not know yet."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    record = run_record(SMALL)
    with (
        Store.open(url) as lost,
        Store.open(url) as store,
        ThreadPoolExecutor(1) as executor,
    ):
        with lost.together():
            assert lost.create_run(record)
            creating = executor.submit(store.create_run, record)
            while not execute(url, waiting):
                assert not creating.done()
        assert creating.result(timeout=10) is False
        store.withdraw_run(RUN_ID)
        assert store.runs() == []


def test_one_coordinator_keeps_the_others_out(url: str) -> None:
    with Store.open(url) as first, Store.open(url) as second:
        assert first.claim("process 1 on host a") is None
        assert second.claim("process 2 on host b") == "process 1 on host a"
        first.create_run(run_record(SMALL))


def test_who_lost_its_claim_to_another_writes_nothing_more(url: str) -> None:
    with Store.open(url) as first, Store.open(url) as second:
        first.claim("first")
        first.create_run(replace(run_record(SMALL), state="queued"))
        assert end_backends(url, _LOCK_HOLDER) == 1
        assert second.claim("second") is None
        with pytest.raises(StoreTaken, match="another coordinator: second"):
            first.set_run_state(RUN_ID, "running")
        with pytest.raises(StoreTaken):
            first.keep_claim()
        second.set_run_state(RUN_ID, "running")


def test_a_claim_whose_connection_ended_is_taken_again(url: str) -> None:
    with Store.open(url) as first, Store.open(url) as second:
        first.claim("first")
        assert end_backends(url, _LOCK_HOLDER) == 1
        first.keep_claim()
        assert second.claim("second") == "first"
        first.create_run(run_record(SMALL))


def test_a_write_under_way_ends_before_another_owner_begins(url: str) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with (
        Store.open(url) as first,
        Store.open(url) as second,
        ThreadPoolExecutor(1) as executor,
    ):
        first.claim("first")
        first.create_run(run_record(SMALL))
        with first.together():
            first.put_agent(RUN_ID, "load1", AgentFacts(libldap="x"))
            end_backends(url, _LOCK_HOLDER)
            claiming = executor.submit(second.claim, "second")
            while not execute(url, waiting):
                assert not claiming.done()
            first.put_agent(RUN_ID, "load1", AgentFacts(workers=2))
        assert claiming.result(timeout=10) is None
        with pytest.raises(StoreTaken):
            first.put_agent(RUN_ID, "load1", AgentFacts(workers=3))
        assert second.agents(RUN_ID) == {"load1": AgentFacts(libldap="x", workers=2)}


def test_no_text_of_a_peer_is_refused(url: str) -> None:
    with Store.open(url) as store:
        store.create_run(replace(run_record(SMALL), state="queued"))
        store.add_event(RUN_ID, "said", "a\0b", "2026-03-01T12:00Z")
        store.set_run_state(RUN_ID, "failed", "a\0b")
        store.put_agent(RUN_ID, "load1", AgentFacts(host={"name": "a\0b\ud800"}))
        store.set_manifest(RUN_ID, Manifest(failure={"message": "a\0b"}))
        assert str(store.agents(RUN_ID)["load1"].host["name"]).startswith("a")
        assert [run.state for run in store.runs()] == ["failed"]


def test_writes_that_lose_their_connection_are_written_again(url: str) -> None:
    async def write() -> dict[str, AgentFacts]:
        writer = StoreWriter(url)
        store = writer.store
        await writer.call(store.create_run, run_record(SMALL))
        for number in range(20):
            writer.post(
                store.put_agent, RUN_ID, f"load{number}", AgentFacts(workers=number)
            )
            if number % 4 == 0:
                await asyncio.to_thread(end_backends, url)
        await writer.flush()
        found = await writer.call(store.agents, RUN_ID)
        await writer.close()
        return found

    found = asyncio.run(write())
    assert found == {
        f"load{number}": AgentFacts(workers=number) for number in range(20)
    }


def test_a_commit_is_durable_whatever_the_servers_default(url: str) -> None:
    execute(url, "ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        with Store.open(url) as store, store.transaction() as connection:
            shown = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        assert shown == "on"
    finally:
        execute(url, "ALTER DATABASE postgres RESET synchronous_commit")
