# SPDX-License-Identifier: Apache-2.0
"""A judged run and its result.json are what the verdict was given for, or say so."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ldapslam.base.errors import NotAsJudged
from ldapslam.jobs.run_plan import plan_document
from ldapslam.reports.digest import (
    altered_of,
    altered_result,
    digest_document,
    parts_in,
)
from ldapslam.reports.formats.render import result_json
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results import schema
from ldapslam.results.collected import CollectedPart
from ldapslam.results.digest import (
    Part,
    canonical,
    parts_of,
    reports_part,
    sha256_of,
    stored_digest,
)
from ldapslam.results.store import Store
from support.judged import judge
from support.monitors import add_monitors
from support.result_schema import valid_result
from support.store import RUN_ID, Scenario, fill, summary_of

SIGNATURE = {"signer": "c1", "certificate": "PEM", "signature": "base64"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in every table."""
    path = tmp_path_factory.mktemp("judged") / "results.sqlite"
    limits = ("readers.search.response_time.p99 < 1s",)
    with Store.open(path) as store:
        fill(store, Scenario(thresholds=limits))
        store.add_event(
            RUN_ID, "agent_silent", "load1 is silent", "2026-03-01T12:00:09Z"
        )
        store.add_clock_samples(RUN_ID, [("load1", 5, 7, 9)])
        add_monitors(store, RUN_ID, 5)
        of = reports_part(store, RUN_ID, 1, 3)
        part = CollectedPart(1, 3, of.rows, of.sha256, "made of")._asdict()
        with store.transaction(writes=True) as connection:
            row = {"run_id": RUN_ID, **part, "content": b"content"}
            connection.execute(schema.collected_part.insert(), row)
        judge(store, RUN_ID, SIGNATURE)
    return path


@pytest.fixture
def store(judged: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy for a test to change."""
    shutil.copy(judged, tmp_path)
    with Store.open(tmp_path / judged.name) as store:
        yield store


def test_a_judged_run_shows_its_digest(store: Store) -> None:
    summary = summarise(store, RUN_ID)
    assert (summary.verdict, summary.altered) == ("PASS", ())
    digest = store.run(RUN_ID).digest
    assert digest is not None
    assert digest["document"]["parts"].keys() == {
        "job",
        "manifest",
        "run",
        "result",
        *(table.name for table in schema.TABLES),
    }
    assert all(part["rows"] for part in digest["document"]["parts"].values())
    text = " ".join(render_text(document(summary)).split())
    assert f"SHA-256 {digest['sha256']}, signed by c1" in text


def test_the_copy_of_a_run_is_the_same(store: Store) -> None:
    with Store.open("sqlite://") as other:
        other.import_run(store.export_run(RUN_ID))
        assert summarise(other, RUN_ID).altered == ()


def test_an_event_of_the_command_for_ends_changes_nothing(store: Store) -> None:
    before = json.loads(result_json(summarise(store, RUN_ID)))
    store.add_event(RUN_ID, "on_run_end", "PASS: …", "2026-03-01T13:00:00Z")
    summary = summarise(store, RUN_ID)
    after = json.loads(result_json(summary))
    assert summary.altered == ()
    assert len(after["events"]) == len(before["events"]) + 1
    assert altered_result(after) == altered_result(before) == ()


def _other(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:]
        case int() | float():
            return value + 1_000
        case str():
            return value + "x"
        case dict():
            return {**value, "x": 1}
        case list():
            return [*value, 1]
    return "1"


_COLUMNS = [
    (table, column)
    for table in schema.TABLES
    for column in table.columns
    if column.name not in ("run_id", "room_bytes")
    and not (table is schema.run and column.name in ("verdict", "digest", "unjudged"))
]


@pytest.mark.parametrize(
    ("table", "column"), _COLUMNS, ids=[f"{t.name}.{c.name}" for t, c in _COLUMNS]
)
def test_no_value_of_a_run_is_changed_unseen(
    store: Store, table: sa.Table, column: sa.Column[Any]
) -> None:
    keys, judged = list(table.primary_key), store.run(RUN_ID)
    with store.transaction(writes=True) as connection:
        row = connection.execute(sa.select(table).order_by(*keys).limit(1)).one()
        value = _other(row._mapping[column.name])
        same_row = sa.and_(*(key == row._mapping[key.name] for key in keys))
        connection.execute(sa.update(table).where(same_row), {column.name: value})
    [why, *_] = altered_of(store, judged)
    part = table.name
    if table is schema.run:
        part = "manifest" if column.name == "manifest" else "(job|run)"
    assert re.fullmatch(f"{part} has other content", why)


def test_a_changed_report_of_a_collected_part_is_seen(store: Store) -> None:
    table = schema.interval_report
    with store.transaction(writes=True) as connection:
        query = table.update().where(table.c.interval_index == 2)
        connection.execute(query.values(end_ns=1))
    [why] = altered_of(store, store.run(RUN_ID))
    assert "intervals 1 to 3" in why


@pytest.mark.parametrize("name", ["verdict", "reasons", "parts", "judged_utc"])
def test_another_document_is_seen(store: Store, name: str) -> None:
    digest: Any = store.run(RUN_ID).digest
    document = digest["document"]
    document[name] = _other(document[name])
    store.set_verdict(RUN_ID, "PASS", digest)
    [why] = altered_of(store, store.run(RUN_ID))
    assert "not that of its document" in why or "the digest is none" in why


@pytest.mark.parametrize(
    "digest", [{}, {"document": {}}, {"document": {}, "sha256": "x", "signature": 1}]
)
def test_a_digest_that_is_none_is_said(store: Store, digest: Any) -> None:
    store.set_verdict(RUN_ID, "PASS", digest)
    summary = summarise(store, RUN_ID)
    assert summary.verdict == "INVALID"
    assert "the digest is none" in summary.reasons[0]


def test_another_event_after_the_verdict_is_seen(store: Store) -> None:
    store.add_event(RUN_ID, "agent_lost", "load1", "2026-03-01T13:00:00Z")
    assert altered_of(store, store.run(RUN_ID)) == ("an event agent_lost is new",)


def test_a_later_version_has_more_columns_and_tables(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are none of what was judged; what an older one had must be there."""
    run = store.run(RUN_ID)
    assert run.digest is not None
    document = run.digest["document"]
    assert "priority" in document["parts"]["run"]["columns"]
    older: Any = json.loads(json.dumps(document))
    known: Any = {name: dict(part) for name, part in older["parts"].items()}
    del known["run_clock"]
    then = parts_in({**document, "parts": known})
    assert "run_clock" in parts_of(store, RUN_ID, then)  # it has rows
    with store.transaction(writes=True) as connection:
        connection.execute(sa.delete(schema.run_clock))
    assert "run_clock" not in parts_of(store, RUN_ID, then)
    fewer = then["run"].columns[:-1]
    narrower = parts_of(store, RUN_ID, {**then, "run": Part(1, "", fewer)})
    assert narrower["run"].columns == fewer


def test_an_altered_run_is_invalid_and_its_report_has_no_digest(store: Store) -> None:
    plan = plan_document(store.run(RUN_ID).plan) | {"thresholds": []}
    with store.transaction(writes=True) as connection:
        connection.execute(sa.update(schema.run), {"plan": plan})
    summary = summarise(store, RUN_ID)
    assert summary.verdict == "INVALID"
    assert summary.reasons == (
        "the stored run is not what was judged: job has other content",
    )
    text = render_text(document(summary))
    assert "cannot be certified: the stored run is not what was judged" in text
    assert "SHA-256" not in text


def test_a_row_more_or_less_is_seen(store: Store) -> None:
    table = schema.interval_report
    with store.transaction(writes=True) as connection:
        last = sa.select(sa.func.max(table.c.sequence)).scalar_subquery()
        gone = table.c.sequence == last
        connection.execute(sa.delete(table).where(gone, table.c.agent == "load1"))
    [why] = summarise(store, RUN_ID).altered
    assert why.startswith("interval_report has ")
    assert "it had" in why


@pytest.mark.parametrize(
    "path",
    [
        "verdict",
        "figures readers.search.response_time.p99 value",
        "events 0 text",
        "digest document reasons",
        "digest document parts result sha256",
    ],
)
def test_a_changed_result_json_is_seen(store: Store, path: str) -> None:
    result = valid_result(summarise(store, RUN_ID))
    *places, last = [int(one) if one.isdigit() else one for one in path.split()]
    changed: Any = result
    for place in places:
        changed = changed[place]
    changed[last] = _other(changed[last])
    if "digest" in path:
        with pytest.raises(NotAsJudged, match="not that of its document"):
            altered_result(result)
    else:
        assert altered_result(result)


def test_another_verdict_in_the_store_is_seen(store: Store) -> None:
    digest = store.run(RUN_ID).digest
    store.set_verdict(RUN_ID, "FAIL", digest)
    assert any("PASS" in one for one in summarise(store, RUN_ID).altered)


def test_canonical_json_is_as_documented() -> None:
    value = {"b": [1, 2.5, None, True], "a": 'ä"\\\n\u2028', "\ud800": ""}
    text = '{"a":"ä\\"\\\\\\n\u2028","b":[1,2.5,null,true],"\ud800":""}'
    assert canonical(value) == text.encode("utf-8", "surrogatepass")
    assert sha256_of({}) == (
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )


def test_of_a_run_that_is_not_judged_nothing_is_said() -> None:
    summary = summary_of(Scenario())
    assert summary.altered == ()
    assert "digest" not in valid_result(summary)


def test_a_run_that_is_judged_again_keeps_its_first_digest(store: Store) -> None:
    first = store.run(RUN_ID).digest
    for _ in range(2):
        summary = summarise(store, RUN_ID, ignores_verdict=True)
        document = digest_document(store, summary, store.run(RUN_ID).digest)
        assert document["first"] == first
        digest = stored_digest(document, SIGNATURE)
        store.set_verdict(RUN_ID, summary.verdict, digest)
        assert altered_of(store, store.run(RUN_ID)) == ()


def test_what_stands_for_a_digest_and_is_none_is_no_first_one(store: Store) -> None:
    summary = summarise(store, RUN_ID, ignores_verdict=True)
    digests: Any = ({}, {"document": 1}, {"document": {"first": {}}, "sha256": "x"})
    for digest in digests:
        assert "first" not in digest_document(store, summary, digest)
