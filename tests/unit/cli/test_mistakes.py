# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make, and the remedy that each is answered with.

No server is needed for these; tests/integration/test_mistakes.py has the others, and
jobs/bad_jobs the faults of job files.
"""

from __future__ import annotations

import re
import shlex
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldapslam.cli import main
from ldapslam.jobs.load import load_job
from ldapslam.results.store import Store

JOB = """\
name: lookups
targets: {directory: "ldap://ds1.example.com"}
run: {duration: 1s}
streams:
  - name: readers
    target: directory
    load: {clients: 2}
    operations:
      - search: {base: "dc=example,dc=com", filter: "(uid=user.[0-9])"}
"""
BROKEN_TEMPLATE = """\
branch: dc=com
subordinateTemplate: a:1

template: a
rdnAttr: cn
cn: <frist>
"""
CLOSED = "{clients: 2}"
NO_COORDINATOR = "--coordinator 127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LDAPSLAM_COORDINATOR", "LDAPSLAM_TLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("ldapslam.cli.runs._listens", lambda _: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("good.yaml").write_text(JOB)
    Path("ca.pem").touch()
    Path("broken.template").write_text(BROKEN_TEMPLATE)
    head, _, stream = JOB.replace(CLOSED, "{rate: 50/s}").partition("  - ")
    Path("open.yaml").write_text(f"{head}  - {stream}")
    trace = JOB.replace(CLOSED, "{trace: {logs: [log]}}")
    Path("trace.yaml").write_text(trace)
    Path("jobs.yaml").write_text("name: x\njobs: [search.yaml, b/b.yaml]\n")
    two = f"{head}  - {stream}  - {stream.replace('readers', 'others')}"
    Path("two.yaml").write_text(two)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str]:
    """The exit code, and what was said in one line: no matter where lines end."""
    code = main.run(shlex.split(command))
    return code, " ".join(capsys.readouterr().err.split())


COMMANDS = {
    "quick modify ldap://ds1 -e cn=a,dc=x -a sn=b --name ''": "--name: expected",
    "quick search ldap://ds1 -b dc=x '(uid=a)' cn": "write -f '(uid=a)' if it is",
    "quick search ldap://ds1 -b dc=x cn": "-a cn where it is an attribute",
    "run good.yaml -o res.json": "--json prints result.json; res.json/ is a folder",
    "quick search ldap://ds1 -b dc=x --out out/res.csv": "expected a folder, got",
    "quick search ldap://d1 -b dc=x -f (uid=e[001-050])": "[1-50%000] for numbers of 3",
    "quick search ldap://d1 -b dc=x -D cn=a -w b": "use -y FILE or --password-env NAME",
    "quick search ldap://ds1 -b dc=x -D cn=a": "-D needs its password: -y FILE",
    "quick search ds1 -b dc=x": "write ldap://ds1",
    "quick search ldap://ds1 -b dc=x -Z ca.pem": "the authorities are --ca-file ca.pem",
    "quick search ldap://ds1 -d 30 s -b dc=x": "a number and its unit are one word",
    "quick search ldap:/ds1 -b dc=x": "write ldap://ds1",
    "quick search ldap://ds1,ldap://ds2 -b dc=x": "give each URI as an argument",
    "quick search good.yaml -b dc=x": "`ldapslam run` takes a job file",
    "check ldap://ds1": "`ldapslam new URI -o FILE` writes one",
    "report last": "did you mean `latest`?",
    "data load good.yaml": "give a URI too, such as ldap://ds1.example.com",
    "data load good.yaml --offline slapadd": "needs --server-config",
    "data load good.yaml ldap://x --offline ldif2db --server-config /": "takes no URI",
    "data load good.yaml ldap://x --server-config /": "is for --offline",
    "data load good.yaml ldap://x --quick": "--quick is for --offline slapadd",
    "data load good.yaml ldap://x -D cn=x": "-D needs its password",
    "data load good.yaml ldap://x --offline import-task --continue-on-error": "always",
    "data generate poeple": "did you mean 'people'?",
    "data generate people --constant x": "--constant: expected NAME=VALUE",
    "data generate people --constant x=1": "unknown constant 'x'",
    "data generate people --json": "--json and the LDIF both want stdout",
    "data generate people -o x --dn-file x": "two outputs go to 'x'",
    "data generate people --first-names none": "cannot read 'none'",
    "data generate broken.template": "broken.template:6: unknown tag <frist>",
    "lab up --setting treads=8": "did you mean 'threads'?",
    "lab up --setting threads": "expected NAME=VALUE",
    "lab up --name ../x": "expected letters",
    "lab up --hub": "--hub without replicas",
    "lab up --cpus 0-": "expected CPUs such as '2' or '0-3,8'",
    "quick search ldap://ds1": "'--base'. Where to search",
    "quick search ldap://ds1 -r 100": "`ldapslam new ldap://ds1 -o FILE` writes a job "
    "with a base that is there",
    # numbers
    "quick search ldap://ds1 -b dc=x -r 500": "-r: expected a rate such as '500/s' or",
    "quick search ldap://ds1 -b dc=x -d 30": "write the unit: 30s, 30ms or 30us",
    "quick search ldap://ds1 -b dc=x -d 5min": "write 5m",
    "quick search ldap://ds1 -b dc=x -r 5/s --think-time 5ms": "is for a closed loop",
    f"submit good.yaml --every 6 {NO_COORDINATOR}": "write the unit: 6s, 6ms or 6us",
    "results prune --keep-for 90": "the units are h, d and w",
    "capacity good.yaml --load rate --from 5/s --to 9/s": "raise --load clients, or",
    "capacity open.yaml --load clients --from 5 --to 9": "{clients: 1}",
    "capacity open.yaml --load rate --from 5/s --to 9/s --objective 'p99 < 20'": (
        "--objective: "
    ),
    "capacity good.yaml --load user --from 5 --to 9": "known variables: clients",
    "capacity good.yaml --load clients --from 5/s --to 9/s": "such as 16; a variable",
    "capacity good.yaml --load clients --from 5 --to 9x": "such as 16; a variable",
    "capacity open.yaml --load rate --from 50 --to 60/s": "write the unit: 50/s",
    "capacity open.yaml --load rate --from 90/m --to 60/s": "a whole number per second",
    "capacity open.yaml --load rate --from 6/s --to 5/s": "expected --from below --to",
    "capacity two.yaml --load rate --from 5/s --to 9/s": "streams.others.load.rate",
    "study jobs.yaml": "give each a name: jobs: {search: search.yaml, b: b/b.yaml}",
    "study jobs.yaml --out res.json": "--json prints study.json; res.json/ is a folder",
    "gate good.yaml --old ldap://a --new ldap://b --out r.csv": "expected a folder",
    "capacity good.yaml --load clients --from 5 --to 9 --out r.json": "capacity.json",
    "run good.yaml -r 500 --print-job": "--rate: expected a rate such as",
    "run good.yaml -d 5 --print-job": "--duration: expected a duration such as",
    "run two.yaml -c 9 --print-job": "--set streams.readers.load.rate=500/s",
    "run two.yaml -r 5/s --print-job": "this has 2",
    "run trace.yaml -r 5/s --print-job": "the load is a trace",
    # changes of a job
    "check good.yaml --offline --set duration=5s": "--set run.duration=…",
    "check good.yaml --offline --set run.durration=5s": "did you mean 'duration'?",
    "check good.yaml --offline --set streams.9.target=x": "the last one is 0",
    "check good.yaml --offline --set streams.writers.target=x": "known names: readers",
    "check good.yaml --offline --set run.duration": "such as --set run.duration=30s",
    "check good.yaml --offline --var users=5": "there are no variables here",
    # files and places
    "run good.yaml --metrics http://127.0.0.1:9400": "write 127.0.0.1:9400: it is no",
    "run good.yaml --metrics nowhere.invalid:9400": "give an address of this host",
    "check god.yaml": "did you mean 'good.yaml'?",
    "run good.yaml --out /proc/nothing": "name another one with --out",
    "study good.yaml": "`ldapslam run good.yaml` runs it",
    "show latest": "`ldapslam list` shows the runs of ldapslam-runs",
    "report nowhere/run": "name one that `ldapslam run`",
    "report latest --store good.yaml": "is not a results store",
    "report latest --store none.sqlite": "does not exist",
    "report newer": "use the ldapslam that wrote it, or a new store",
    "results verify good.yaml": "it is not JSON hint: give the folder of a run",
    "report latest --local --format docx": "the formats are html, pdf",
    "compare latest": "two sides are needed",
    "new nothing": "known examples: burst,",
    # fleets
    f"list {NO_COORDINATOR}": "is `ldapslam coordinator` running there",
    "list --coordinator http://ds1:7400": "write ds1:7400: it is no URL",
    "list --coordinator ds1:port": "for example 127.0.0.1:7400",
    "list --coordinator 10.0.0.1:7400": "make certificates with `ldapslam fleet pki`",
    "list --coordinator 10.0.0.1:7400 --tls .": "`ldapslam fleet pki issue` makes",
    "agent --coordinator 10.0.0.1:7400": "make certificates with `ldapslam fleet pki`",
    f"submit good.yaml {NO_COORDINATOR} --at 2020-01-01T00:00": "leave --at out to run",
    f"submit good.yaml {NO_COORDINATOR} --at tomorrow": "write 22:30, 2026-03-01T22:30",
    f"submit good.yaml {NO_COORDINATOR} --at 22:30 --tz CEST": "such as Europe/Berlin",
    f"submit good.yaml {NO_COORDINATOR} --cron '* * * *'": "expected 5 fields, got 4",
    f"submit good.yaml {NO_COORDINATOR} --cron '61 * * * *'": "five fields as in",
    f"submit good.yaml {NO_COORDINATOR} --cron '@daily' --every 6h": "give one of them",
    f"submit good.yaml {NO_COORDINATOR} --cron '0 0 * * *' --at +1h": "is for one run",
    f"submit good.yaml {NO_COORDINATOR} --cron '0 0 * * *' --wait": "has no end",
    f"submit good.yaml {NO_COORDINATOR} --overlap queue": "--overlap is for schedules",
    f"submit good.yaml {NO_COORDINATOR} --at +1h --name x": "--name is for schedules",
    f"submit good.yaml {NO_COORDINATOR} --at +1h --misfire skip": "is for schedules",
    f"submit good.yaml {NO_COORDINATOR} --paused --after latest": "is for schedules",
    f"submit good.yaml {NO_COORDINATOR} --if pass": "--if says how",
    f"submit nojob.yaml {NO_COORDINATOR}": "nojob.yaml: cannot be read",
    f"submit nojob.yaml {NO_COORDINATOR} --at +1h": "nojob.yaml: cannot be read",
    f"submit nojob.yaml {NO_COORDINATOR} --every 6h": "nojob.yaml: cannot be read",
    "coordinator --store good.yaml": "is not a results store",
    "coordinator --scratch .": "no folder of a local fleet",
}


#: Options of `submit` with nothing in them: not as if they were left out, or the load
#: would begin now.
NOTHING = {
    f"submit good.yaml {NO_COORDINATOR} {option} '{value}'": (
        f"{option}: expected .* got '{value}' hint: "
    )
    for option, value in (
        *(("--every", "0s"), ("--cron", ""), ("--cron", " "), ("--at", "")),
        *(("--after", ""), ("--from", ""), ("--until", ""), ("--name", "")),
    )
}


@pytest.mark.parametrize("command", NOTHING)
def test_an_option_with_nothing_in_it_is_not_an_option_left_out(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(capsys, command)
    assert code == 2
    assert re.match(NOTHING[command], said)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_in_a_command(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "newer" in command:
        _store_of_a_later_version(folder / "newer")
    before = set(folder.rglob("*"))
    code, said = answer(capsys, command)
    assert code == _CODES.get(command, 2)
    assert COMMANDS[command] in said
    assert set(folder.rglob("*")) == before


_CODES = {"results verify good.yaml": 3, f"list {NO_COORDINATOR}": 5}


def _store_of_a_later_version(folder: Path) -> None:
    Store.open(folder / "results.sqlite").close()
    with sqlite3.connect(folder / "results.sqlite") as connection:
        connection.execute("UPDATE revision SET number = 999")
    connection.close()


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use(port_in_use: int, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"coordinator --listen 127.0.0.1:{port_in_use} --store c.sqlite"
    code, said = answer(capsys, command)
    assert code == 2
    assert "it is in use" in said
    assert "--listen names another port" in said
    assert "GRPC" not in said


def test_what_is_no_fault_but_hardly_meant_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("job.yaml").write_text(JOB.replace("uid=", "uid=${user}"))
    code, said = answer(capsys, "check job.yaml --offline")
    assert code == 0
    assert "a variable needs a default in the job's `vars`" in said


@pytest.mark.parametrize("name", ["json=res", "csv", "./res"])
def test_a_folder_of_results_may_have_any_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"run good.yaml --print-job --out {name}"
    assert answer(capsys, command) == (0, "")


def test_the_only_target_needs_no_naming(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.yaml").write_text(JOB.replace("    target: directory\n", ""))
    assert answer(capsys, "check job.yaml --offline") == (0, "")
    assert load_job(Path("job.yaml")).streams[0].target == "directory"


def test_a_good_job_has_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "check good.yaml --offline") == (0, "")
