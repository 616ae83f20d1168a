# SPDX-License-Identifier: Apache-2.0
"""Streams that Python classes drive, against a real slapd, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.busy_host import VALIDITY
from support.command_line import ldapslam
from support.figures import requests_in, value_of
from support.lab import Lab

#: What the directory and the books both count.
BOOKED = ("bind", "unbind", "search", "compare")

CONFIGS = Path(__file__).parents[2] / "configs" / "jobs"

JOB = (
    VALIDITY
    + """\
name: classes
targets: {{directory: {servers}}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: {duration}, interval: 500ms, drain: 1s}}
streams:
  - name: {name}
    target: directory
    load: {load}
    {sends}
{rest}
"""
)

NATIVE = """\
  - name: native
    target: directory
    load: {clients: 2, think_time: 5ms}
    operations: [{compare: {dn: "uid=user.1,ou=people,dc=example,dc=com",
                            attribute: uid, value: user.1}}]
"""


def write_job(
    folder: Path,
    lab: Lab,
    *,
    name: str = "lookups",
    load: str = "{clients: 2, think_time: 5ms}",
    sends: str = "",
    duration: str = "1s",
    class_name: str = "Lookups",
    rest: str = "",
    servers: str = "",
) -> Path:
    path = folder / "job.yaml"
    path.write_text(
        lab.job(
            JOB,
            name=name,
            load=load,
            sends=sends or python_stream(lab, f"support.python_jobs:{class_name}"),
            duration=duration,
            rest=rest,
            servers=servers or lab.supplier.uri,
        )
    )
    return path


def python_stream(lab: Lab, class_path: str) -> str:
    return (
        f"python: {{class: '{class_path}', "
        f"operations: [find, miss], options: {{base: '{lab.people_dn}'}}}}"
    )


def burst(lab: Lab, user: str) -> str:
    return (
        f"type: burst\n    options: {{base: '{lab.people_dn}', "
        f"filter: '(uid=user.{user})', client: process}}"
    )


def run(job: Path) -> Any:
    return ldapslam("run", job, "--out", job.parent / "out")


def result_of(job: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((job.parent / "out/result.json").read_text())
    return result


def kinds(counts: dict[str, int]) -> dict[str, int]:
    return {kind: counts.get(kind, 0) for kind in BOOKED}


@pytest.mark.parametrize(
    "load",
    [
        "{clients: 3, think_time: 5ms}",
        pytest.param(
            "{rate: 100/s, arrivals: poisson, connections: 3}", marks=pytest.mark.long
        ),
    ],
    ids=["closed", "open"],
)
def test_a_class_is_measured_beside_the_engine_and_the_books_balance(
    lab: Lab, tmp_path: Path, load: str
) -> None:
    both = lab.supplier, lab.replicas[0]
    servers = json.dumps([one.uri for one in both])
    job = write_job(tmp_path, lab, load=load, rest=NATIVE, servers=servers)
    before = {one.uri: kinds(lab.monitor_counts(one)) for one in both}
    done = run(job)
    after = {one.uri: kinds(lab.monitor_counts(one)) for one in both}
    assert done.returncode == 0, done.stdout + done.stderr
    result = result_of(job)
    find, miss = (result["streams"]["lookups"][name] for name in ("find", "miss"))
    assert find["succeeded"] == find["completed"] > 20
    # one entry for each search, and the code that was expected for each miss
    assert find["entries_returned"] == find["succeeded"]
    assert miss["expected"] == miss["completed"] == miss["result_codes"]["noSuchObject"]
    [facts] = result["manifest"]["agents"].values()
    assert facts["python_expected_codes"] == {"lookups": {"miss": [32]}}
    service_us, response_us = (
        value_of(result, f"lookups.find.{metric}.p50")
        for metric in ("service_time", "response_time")
    )
    assert 0 < service_us <= response_us
    books = requests_in(result)
    for uri, counted in after.items():
        assert {kind: counted[kind] - before[uri][kind] for kind in counted} == {
            kind: books[uri][kind]["sent"] for kind in counted
        }


def _long(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("class_path", "code", "message"),
    [
        _long(
            "support.python_jobs:RaisesInSetUp",
            2,
            "failed in its set-up: KeyError: 'cannot'",
        ),
        _long("support.python_jobs:Forks", 2, "forked, and its copy returned"),
        ("support.python_jobs:Dies", 3, "ended in its set-up: SIGSEGV"),
        _long("support.python_jobs:NoJob", 2, "is no subclass of PythonJob"),
        ("support.python_jobs:Missing", 2, "does not exist"),
        ("no.such.module:Class", 2, "'no.such.module' cannot be imported"),
        (
            "support.python_jobs:Probe",
            2,
            "records the operations ['find'], the job names ['find', 'miss']",
        ),
    ],
)
def test_a_class_at_fault_is_named_before_any_load(
    lab: Lab, tmp_path: Path, class_path: str, code: int, message: str
) -> None:
    done = run(write_job(tmp_path, lab, sends=python_stream(lab, class_path)))
    assert message in done.stderr
    assert "stream 'lookups'" in done.stderr
    assert done.returncode == code, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        _long("RaisesInRun", "ValueError: not within an operation (python_jobs.py:"),
        _long("Nests", "an operation is begun within another"),
        ("RecordsOther", "operation 'other' is not declared"),
        _long("Resigns", "raised RunStopped before the load was over"),
    ],
)
def test_a_class_that_fails_under_load_ends_the_run_and_is_named(
    lab: Lab, tmp_path: Path, class_name: str, message: str
) -> None:
    done = run(write_job(tmp_path, lab, class_name=class_name))
    assert done.returncode == 3
    assert message in done.stderr + done.stdout


def test_what_hangs_at_the_end_is_unresolved(lab: Lab, tmp_path: Path) -> None:
    job = write_job(tmp_path, lab, class_name="Hangs")
    done = run(job)
    assert done.returncode == 1  # nothing had an answer
    find = result_of(job)["streams"]["lookups"]["find"]
    assert (find["scheduled"], find["sent"], find["unresolved"]) == (2, 2, 2)


def test_the_example_of_the_guide_runs(lab: Lab, tmp_path: Path) -> None:
    changes = {
        "targets": f"{{supplier: '{lab.supplier.uri}'}}",
        "bind": f"{{dn: '{lab.admin_dn}', "
        f"password: {{file: '{lab.admin_password_file}'}}}}",
        "run": "{duration: 1s}",
        # so few people that clients meet
        "streams.counters.python.options.people": "3",
    }
    options = [word for key in changes for word in ("--set", f"{key}={changes[key]}")]
    out = tmp_path / "out"
    done = ldapslam("run", CONFIGS / "counters.yaml", *options, "--out", out)
    assert done.returncode in (0, 3), done.stderr
    streams = json.loads((out / "result.json").read_text())["streams"]
    read, write = (streams["counters"][name] for name in ("read", "write"))
    assert read["succeeded"] == read["completed"] > 10
    assert write["succeeded"] + write["expected"] == write["completed"] > 10
    assert write["failed"] == 0


def test_a_process_for_each_search_is_counted_as_the_server_counts(
    lab: Lab, tmp_path: Path
) -> None:
    job = write_job(tmp_path, lab, name="shell", sends=burst(lab, "[0-999]"))
    before = kinds(lab.monitor_counts(lab.supplier))
    done = run(job)
    after = kinds(lab.monitor_counts(lab.supplier))
    assert done.returncode == 0, done.stdout + done.stderr
    result = result_of(job)
    search = result["streams"]["shell"]["search"]
    assert search["succeeded"] == search["completed"] == search["entries_returned"] > 5
    (books,) = requests_in(result).values()
    assert after["search"] - before["search"] == books["search"]["sent"]
    assert after["bind"] - before["bind"] == books["bind"]["sent"]
    # a program has a connection of its own
    assert result["connections"]["shell"]["connects"] == search["completed"]
    # loading a program takes longer than any search in this lab
    assert value_of(result, "shell.search.service_time.min") > 1_000


def test_a_host_full_of_processes_is_called_the_limit(lab: Lab, tmp_path: Path) -> None:
    job = write_job(tmp_path, lab, sends=burst(lab, "1"), load="{clients: 12}")
    job.write_text(job.read_text().removeprefix(VALIDITY))
    done = run(job)
    assert done.returncode == 3
    assert "an agent was disturbed" in done.stdout
