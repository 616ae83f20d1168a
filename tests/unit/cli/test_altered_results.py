# SPDX-License-Identifier: Apache-2.0
"""What somebody altered counts nowhere, what somebody gave us leads nowhere else."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli import main
from ldapslam.proto import (
    agent_pb2,
    common_pb2,
    monitor_pb2,
    operator_pb2,
    schedule_pb2,
)
from ldapslam.proto.fields import OPERATION_COUNTERS, TABLES
from ldapslam.reports.digest import read_result
from ldapslam.reports.formats.render import result_json
from ldapslam.results.packing import digest_of, pack, unpack
from ldapslam.results.store import Store
from ldapslam.studies.baseline import FEWEST, load_baseline, read_gate
from ldapslam.studies.runner import Ended, Journal, journal_in
from ldapslam.transport.codec import readable
from ldapslam.transport.messages import ProtocolError, error_of
from support.judged import judge, with_digest
from support.monitors import add_monitors
from support.store import RUN_ID, Scenario, fill

IDS = [f"20260301-12000{number}-run" for number in range(FEWEST)]
#: Fails no rule, and has no threshold that may be uncertain.
GOOD = ("readers.search.response_time.p50 < 1s",)


def gate_in(folder: Path, **scenario: Any) -> Path:
    """A gate that says that all runs of its new side count."""
    folder.mkdir()
    runs = []
    with Store.open(folder / "results.sqlite") as store:
        for run_id in IDS:
            fields: dict[str, Any] = {"measure_s": 3, "thresholds": GOOD, **scenario}
            fill(store, Scenario(run={"run_id": run_id}, **fields))
            verdict = judge(store, run_id).verdict
            runs.append({"side": "new", "run_id": run_id, "verdict": verdict})
    told = {"counts": True, "other_cpu_share": 0.0}
    gate = {
        "sides": {"old": "a", "new": "b"},
        "answer": "no regression",
        "runs": [{**one, **told} for one in runs],
    }
    (folder / "gate.json").write_text(json.dumps(gate))
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gate_in(tmp_path_factory.mktemp("altered") / "gate")


@pytest.fixture
def gate(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may alter."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(sound, tmp_path / "gate"))


def saved(*runs: object, store: Path | None = None) -> int:
    where = ["--store", str(store)] if store else []
    return main.run(["results", "baseline", "it.json", *map(str, runs), *where])


def test_a_sound_gate_becomes_a_baseline(gate: Path) -> None:
    assert saved(gate) == 0
    assert len(json.loads(Path("it.json").read_text())["runs"]) == FEWEST


def _divide_counts(connection: sqlite3.Connection) -> None:
    """A third of all requests, wherever they are counted."""
    query = "SELECT rowid, packed FROM interval_report"
    for row, packed in connection.execute(query).fetchall():
        snapshot = unpack(packed)
        columns = TABLES["operations"]
        rows = np.frombuffer(snapshot.operations, "<i8").reshape(-1, len(columns))
        divided = rows.copy()
        divided[:, [columns.index(name) for name in OPERATION_COUNTERS]] //= 3
        snapshot.operations = divided.tobytes()
        content = pack(snapshot)
        connection.execute(
            "UPDATE interval_report SET packed = ?, digest = ? WHERE rowid = ?",
            [content, digest_of(content), row],
        )


def _sql(statement: str) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(statement)


_ALTERATIONS = {
    "counts": _divide_counts,
    "document": _sql("UPDATE run SET digest = replace(digest, 'judged_utc', 'at')"),
    "no digest": _sql("UPDATE run SET digest = NULL"),
    "null digest": _sql("UPDATE run SET digest = 'null'"),
    "never judged": _sql("UPDATE run SET digest = NULL, verdict = NULL"),
    "other's digest": _sql(
        "UPDATE run SET digest = (SELECT digest FROM run ORDER BY run_id LIMIT 1), "
        "seed = '7'"
    ),
}


@pytest.fixture(params=_ALTERATIONS)
def altered(gate: Path, request: pytest.FixtureRequest) -> Path:
    with sqlite3.connect(gate / "results.sqlite") as connection:
        _ALTERATIONS[request.param](connection)
    connection.close()
    return gate


def test_altered_runs_are_in_no_baseline_comparison_and_history(
    altered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert saved(altered) == 2
    assert not Path("it.json").exists()
    store = altered / "results.sqlite"
    assert saved(*IDS, store=store) == 2
    sides = [",".join(IDS[:2]), ",".join(IDS[2:])]
    compare = ["compare", *sides, "--store", str(store), "--include-invalid"]
    assert main.run(compare) == 4
    capsys.readouterr()
    code = main.run(["results", "history", "--store", str(store), "--json"])
    runs = json.loads(capsys.readouterr().out).get("runs", [])
    assert not [one for one in runs if one["verdict"] != "INVALID"]
    assert code == (0 if runs else 2)


def test_a_gate_cannot_say_that_an_invalid_run_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gate = gate_in(tmp_path / "busy", busy_share=0.99)
    assert saved(gate) == 2


@pytest.mark.parametrize("text", ["[]", "{", "\xff", '{"runs": 1}', '{"runs": [{}]}'])
def test_a_gate_that_is_none_is_told(gate: Path, text: str) -> None:
    (gate / "gate.json").write_text(text, "latin-1")
    assert saved(gate) == 3


def _change(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def _without_digest(text: str) -> str:
    content = json.loads(text)
    del content["digest"]
    return json.dumps(content)


def _faster(text: str) -> str:
    content = json.loads(text)
    content["figures"]["readers.search.throughput"]["value"] /= 3
    return json.dumps(content)


_CHANGES = {
    "verdict": _change('"verdict": "PASS"', '"verdict": "FAIL"'),
    "figure": _faster,
    "job": _change("directory-mix", "another"),
    "run": _change(IDS[0], IDS[1]),
    "date": _change("2026-03-01T12:00:02", "2026-03-02T12:00:02"),
    "no digest": _without_digest,
    "no JSON": lambda text: text[:-9],
    "deep": lambda _: "[" * 200_000,
}


#: A run of a study, which has passed.
ENDED = Ended(0, 1, 1, "001-1-1", 0, "PASS", "", 1.0, {})


@pytest.fixture
def study(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "study", {"study": "s"})


@pytest.fixture
def result(gate: Path, study: Journal) -> Path:
    """The result of the study's run."""
    path = study.runs / "001-1-1" / "result.json"
    path.parent.mkdir()
    with Store.open(gate / "results.sqlite") as store:
        path.write_text(result_json(judge(store, IDS[0])))
    return path


def history(result: Path) -> int:
    return main.run(["results", "history", str(result), "--out", "pages"])


def test_a_sound_result_is_in_histories_and_studies(
    study: Journal, result: Path
) -> None:
    assert study.result(ENDED) == json.loads(result.read_text())
    assert history(result) == 0


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_an_altered_result_is_in_no_history_and_no_study(
    study: Journal,
    result: Path,
    change: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    result.write_text(change(result.read_text()))
    assert history(result) == 2
    assert "left out" in capsys.readouterr().err
    with pytest.raises(LdapSlamError):
        study.result(ENDED)


def test_a_journal_says_what_its_results_say(study: Journal, result: Path) -> None:
    """Neither a better verdict, nor one without a result."""
    failed = replace(ENDED, verdict="FAIL")
    with pytest.raises(LdapSlamError, match="says PASS"):
        study.result(failed)
    result.unlink()
    with pytest.raises(LdapSlamError):
        study.result(failed)


# Names and texts that somebody gave us lead to no other file, and to no other line.


NO_NAMES = {
    "above": "../../../PWNED",
    "parent": "..",
    "absolute": "/tmp/PWNED",
    "hidden": ".PWNED",
    "option": "--PWNED",
    "line": "run\nPASS  forged",
    "terminal": "run\x1b[2KPASS",
    "direction": "run\u202ePASS",
    "long": "r" * 65,
    "empty": "",
    "more bytes than a file's name": "\N{GRINNING FACE}" * 64,
}
FORGED = "x\nFORGED  run\rFORGED\x1b[2K\u2028FORGED"

no_names = pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES.keys())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of somebody else, three folders above the working folder."""
    work = tmp_path / "a" / "b" / "c"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    with Store.open(tmp_path / "given.sqlite") as given:
        fill(given, Scenario(measure_s=2, searches_per_s=20))
        add_monitors(given, RUN_ID, 5)
    return tmp_path / "given.sqlite"


def change(store: Path, column: str, value: Any, *tables: str) -> None:
    with sqlite3.connect(store) as connection:
        for table in tables:
            connection.execute(f"UPDATE {table} SET {column} = ?", [value])
    connection.close()


_OF_A_RUN = (
    *("run", "run_agent", "run_event", "run_clock"),
    *("monitor_description", "monitor_sample", "interval_report"),
)


@no_names
def test_the_id_of_a_run_names_no_other_folder(store: Path, name: str) -> None:
    name = name.replace("/tmp", str(store.parent))
    change(store, "run_id", name, *_OF_A_RUN)
    before = {path for path in store.parent.rglob("*") if path.is_file()}
    assert main.run(["report", "latest", "--store", str(store)]) != 0
    assert {path for path in store.parent.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("column", "tables"),
    [
        ("job_name", ("run",)),
        ("schedule_id", ("run",)),
        ("agents", ("run",)),
        ("agent", ("run_agent", "interval_report")),
        ("agent", ("monitor_description", "monitor_sample")),
    ],
)
def test_other_names_of_a_store_are_checked(
    store: Path, column: str, tables: tuple[str, ...]
) -> None:
    for name in NO_NAMES.values():
        copy = shutil.copy(store, "copy.sqlite")
        value = json.dumps([name]) if column == "agents" else name
        with sqlite3.connect(copy) as connection:
            for table in tables:  # one agent of two
                where = "rowid = 1" if column != "agent" else "agent = 'load1'"
                update = f"UPDATE {table} SET {column} = ? WHERE {where}"
                connection.execute(update, [value])
        connection.close()
        assert main.run(["report", "latest", "--store", copy]) != 0, name


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("run", "state_detail"),
        ("run", "submitted_by"),
        ("run", "submitted_utc"),
        ("run", "verdict"),
        ("run", "plan"),
        ("run", "manifest"),
        ("run_agent", "facts"),
        ("run_event", "kind"),
        ("run_event", "text"),
        ("monitor_description", "metrics"),
        ("monitor_description", "facts"),
        ("monitor_sample", "failure"),
    ],
)
def test_a_text_of_a_store_is_one_line(
    store: Path, table: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value: Any = FORGED
    with sqlite3.connect(store) as connection:
        [old] = connection.execute(f"SELECT {column} FROM {table}").fetchone()
        if column == "plan":
            value = json.dumps({**json.loads(old), "description": FORGED})
        elif column in ("manifest", "facts"):
            fact = {"run": "job_file", "run_agent": "observer"}.get(table, "failure")
            value = json.dumps({**json.loads(old), fact: FORGED})
        elif column == "metrics":
            _, *others = json.loads(old)
            value = json.dumps([[FORGED, FORGED, "gauge"], *others])
    change(store, column, value, table)
    for command in ("list", "show latest", "report latest --format text --out it"):
        assert main.run([*command.split(), "--store", str(store)]) == 0
    shown = capsys.readouterr().out + Path("it/report.txt").read_text()
    assert not [one for one in shown.splitlines() if one.startswith("FORGED  run")]
    assert "\x1b" not in shown


_MESSAGES: Mapping[str, Callable[[str], Message]] = {
    "run": lambda name: operator_pb2.RunStatus(run_id=name),
    "job": lambda name: operator_pb2.RunStatus(job_name=name),
    "agents": lambda name: operator_pb2.RunStatus(agents=["a", name]),
    "list": lambda name: operator_pb2.ListRunsReply(runs=[{"run_id": name}]),
    "watch": lambda name: operator_pb2.RunUpdate(status={"run_id": name}),
    "submitted": lambda name: operator_pb2.SubmitJobReply(run_id=name),
    "agent": lambda name: operator_pb2.AgentStatus(name=name),
    "prepare": lambda name: agent_pb2.Command(prepare={"run_id": name}),
    "monitor": lambda name: agent_pb2.Command(monitor={"run": {"run_id": name}}),
    "register": lambda name: agent_pb2.RegisterRequest(monitored_runs=[name]),
    "part": lambda name: agent_pb2.RegisterRequest(runs=[{"run_id": name}]),
    "interval": lambda name: agent_pb2.IntervalReport(agent=name),
    "reading": lambda name: monitor_pb2.MonitorReport(run_id=name),
    "schedule": lambda name: schedule_pb2.ScheduleStatus(name=name),
}


@pytest.mark.parametrize("kind", _MESSAGES)
def test_a_name_in_a_message_is_checked(kind: str) -> None:
    for name in filter(None, NO_NAMES.values()):
        message = _MESSAGES[kind](name)
        with pytest.raises(ProtocolError, match="no name"):
            readable(message, "peer")
    good = _MESSAGES[kind]("Läufer 1")
    assert readable(good, "peer") == _MESSAGES[kind]("Läufer 1")


@pytest.mark.parametrize(
    "message",
    [
        operator_pb2.RunStatus(state_detail=FORGED),
        operator_pb2.RunStatus(failure={"message": FORGED}),
        operator_pb2.RunUpdate(event={"text": FORGED}),
        operator_pb2.AgentStatus(labels={FORGED: FORGED}),
        operator_pb2.IntervalFigures(streams=[{"stream": FORGED}]),
        agent_pb2.ProgressReport(finished={"early_reason": FORGED}),
        agent_pb2.Command(stop={"reason": FORGED}),
        schedule_pb2.ScheduleStatus(next_utc=["now", FORGED]),
        monitor_pb2.MonitorReport(event={"failed": {"message": FORGED}}),
    ],
)
def test_a_text_in_a_message_is_one_line(message: Message) -> None:
    content = readable(message, "peer").SerializeToString()
    assert b"\nFORGED" not in content
    assert b"\x1b" not in content


def test_an_error_of_a_peer_is_one_line() -> None:
    for kind in ("FleetError", "JobErrors", "TargetUnreachable"):
        values = {"hint": FORGED, "uri": FORGED, "detail": FORGED}
        failure = common_pb2.Failure(
            error_class=kind, message=FORGED, values_json=json.dumps(values)
        )
        error = error_of(failure)
        assert len(f"{error}: {error.hint}".splitlines()) == 1
    # the faults of a job are a line each
    faults = [{"class": "ConfigError", "message": FORGED, "values": {}}] * 2
    whole = {"class": "ConfigErrors", "message": "", "values": {"faults": faults}}
    assert len(str(LdapSlamError.from_dict(whole)).splitlines()) <= 2


def _of_result(folder: Path, name: str) -> None:
    made = with_digest({"run_id": name, "verdict": "PASS"})
    (folder / "result.json").write_text(json.dumps(made))
    read_result(folder / "result.json")


def _of_job_in_result(folder: Path, name: str) -> None:
    given = {"run_id": "a", "verdict": "PASS", "manifest": {"job": name}}
    (folder / "result.json").write_text(json.dumps(with_digest(given)))
    read_result(folder / "result.json")


def _of_baseline(folder: Path, name: str) -> None:
    run = {"run_id": name, "t0_utc": "", "figures": {}, "requests": {}}
    made = {"job": "j", "saved_utc": "", "saved_by": "", "facts": {}, "runs": [run] * 5}
    (folder / "it.json").write_text(json.dumps(made))
    load_baseline(folder / "it.json")


def _of_journal(folder: Path, name: str) -> None:
    run = {"point": 0, "repeat": 1, "attempt": 1, "folder": name, "exit_code": 0}
    run |= {"verdict": "PASS", "error": "", "lasted_s": 1.0, "values": {}}
    lines = [{"study": {}}, run]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / "runs.jsonl").write_text(text)
    journal_in(folder)


def _of_gate(folder: Path, name: str) -> None:
    made = {"runs": [{"side": "new", "run_id": name or ".."}]}
    (folder / "gate.json").write_text(json.dumps(made))
    read_gate(folder)


def _of_job(_: Path, name: str) -> None:
    from ldapslam.jobs.load import load_job_text

    text = (
        f"name: j\nagents: {{names: [{json.dumps(name)}]}}\n"
        "targets: {s: 'ldap://one'}\nrun: {duration: 1s}\n"
        "streams: [{name: r, target: s, load: {clients: 1}, "
        "operations: [{search: {base: dc=x}}]}]\n"
    )
    load_job_text(text, file="", base=None)


@pytest.mark.parametrize(
    "read",
    [_of_result, _of_job_in_result, _of_baseline, _of_journal, _of_gate, _of_job],
)
@no_names
def test_a_name_in_a_file_is_checked(
    tmp_path: Path, read: Callable[[Path, str], None], name: str
) -> None:
    read(tmp_path, "Läufer 1")
    with pytest.raises(LdapSlamError):
        read(tmp_path, name)


def test_reports_of_a_given_store_leave_those_of_our_runs(store: Path) -> None:
    ours = Path("ldapslam-runs") / RUN_ID
    ours.mkdir(parents=True)
    (ours / "results.sqlite").touch()
    (ours / "result.json").write_text("ours")
    assert main.run(["report", "latest", "--store", str(store)]) != 0
    assert (ours / "result.json").read_text() == "ours"


def test_reports_in_a_given_folder_follow_no_link(store: Path, tmp_path: Path) -> None:
    given, other = tmp_path / "given", tmp_path / "ours"
    given.mkdir()
    store.rename(given / "results.sqlite")
    other.write_text("ours")
    for name in ("result.json", ".result.json.part", "report.txt", ".report.txt.part"):
        (given / name).symlink_to(other)
    assert main.run(["report", str(given), "--format", "json,text"]) in (0, 2)
    main.run(["report", str(given), "--format", "json", "--format", "text"])
    assert other.read_text() == "ours"
