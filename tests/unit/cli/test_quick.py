# SPDX-License-Identifier: Apache-2.0
"""Operations without a job file: their jobs, faults by option; options of the load."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.jobs.doubts import doubts
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job

URI = "ldap://ds1.example.com"
BASE = "-b dc=example,dc=com"
ENTRY = "-e uid=user.[0-999],dc=example,dc=com"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("certificate")
    (tmp_path / "person.template").write_text(
        "template: person\nrdnAttr: cn\nobjectClass: person\ncn: <sequential>\nsn: x\n"
    )


def words_of(line: str) -> list[str]:
    return ["quick", *shlex.split(line)]


def printed(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = main.run([*words_of(line), "--print-job"])
    captured = capsys.readouterr()
    assert code == ExitCode.PASS, captured.err
    return captured.out


def job_of(line: str, capsys: pytest.CaptureFixture[str]) -> Job:
    text = printed(line, capsys)
    return load_job_text(text, file="printed", base=Path.cwd())


def value_at(job: Job, path: str) -> Any:
    """What the job has at a path such as `streams.0.load.clients`."""
    found: Any = job
    for key in path.split("."):
        found = found[int(key)] if key.isdigit() else getattr(found, key)
    return found


def test_the_printed_job_says_which_command_made_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(f"search {URI} {BASE} -f '(cn=a b)' -d 5s", capsys)
    assert text.startswith(
        f"# ldapslam quick search {URI} {BASE} -f '(cn=a b)' -d 5s\n"
        "# `ldapslam run` takes this file"
    )


def test_the_printed_job_is_the_one_that_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Job, Job]] = []

    def run(source: Any, agents: int, overrides: Any, out: Path, **_: Any) -> ExitCode:
        assert (agents, [*overrides], out) == (2, ["run.interval=500ms"], Path("o"))
        sent = load_job_text(source.content(), file="sent", base=Path.cwd())
        ran.append((source.load(), sent))
        return ExitCode.FAIL

    monkeypatch.setattr("ldapslam.cli.measure.local_run.run_locally", run)
    line = f"search {URI} {BASE} -c 3 --ca-file ca.pem"
    more = "--agents 2 --set run.interval=500ms --out o"
    code = main.run(words_of(f"{line} {more}"))
    assert code == ExitCode.FAIL
    [(loaded, sent)] = ran
    assert loaded == sent == job_of(line, capsys)


STREAM, OPERATION = "streams.0", "streams.0.operations.0"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            f"search {URI} {BASE}",
            {
                "name": "search",
                f"{STREAM}.load.kind": "closed",
                f"{STREAM}.load.clients": 16,
            },
        ),
        (
            f"search {URI} {BASE} -c 4 --think-time 5ms -d 1m --name lookups",
            {
                "name": "lookups",
                "run.duration_ns": 60_000_000_000,
                f"{STREAM}.load.clients": 4,
                f"{STREAM}.load.think_time_ns": 5_000_000,
            },
        ),
        (
            f"search {URI} {BASE} -r 1.5k/s -c 8",
            {f"{STREAM}.load.rate.per_s": 1500, f"{STREAM}.load.connections": 8},
        ),
        (f"search {URI} {BASE} -r 90/m", {f"{STREAM}.load.rate.per_s": 1.5}),
        (f"delete {URI} {ENTRY} -n 1000", {f"{STREAM}.count": 1000}),
        (
            f"search {URI} {BASE} -D cn=admin,dc=x -y /pw -Z --ca-file ca.pem "
            "--no-verify",
            {
                "bind.dn": "cn=admin,dc=x",
                "bind.secret.file": "/pw",
                "tls.start_tls": True,
                "tls.ca_file": "ca.pem",
                "tls.verify": False,
            },
        ),
        (
            f"search {URI} {BASE} -Y SCRAM-SHA-256 -U me --password-env PW",
            {"bind.sasl.mechanism": "SCRAM-SHA-256", "bind.secret.env": "PW"},
        ),
        (
            f"search {URI} {BASE} -s one -f '(uid=user.[0-9])' -a cn,mail -a sn "
            "--expect noSuchObject,referral --reconnect-every 10 --seed 7 "
            "--warm-up 1s --set streams.load.operations.search.size_limit=10",
            {
                f"{OPERATION}.search.attributes": ["cn", "mail", "sn"],
                f"{OPERATION}.search.scope": "one",
                f"{OPERATION}.search.size_limit": 10,
                f"{OPERATION}.expect": [0, 32, 10],
                f"{STREAM}.connection.reconnect_operations": 10,
                "seed": 7,
                "run.warm_up_ns": 1_000_000_000,
            },
        ),
        (
            f"search {URI} {BASE} --threshold 'load.search.errors < 1%'",
            {"thresholds": ["load.search.errors < 1%"]},
        ),
        (
            f"modify {URI} {ENTRY} -a mail=[random:8]@x -a title=a -a title=b",
            {
                f"{OPERATION}.modify.replace": {
                    "mail": ["[random:8]@x"],
                    "title": ["a", "b"],
                }
            },
        ),
        (
            f"add {URI} -e cn=[unique],dc=x -a objectClass=top -a objectClass=person "
            "-a sn=x --keep",
            {f"{OPERATION}.add.clean_up": False},
        ),
        (
            f"add {URI} --template person.template --under dc=x",
            {
                f"{OPERATION}.add.template": "person.template",
                f"{OPERATION}.add.under": "dc=x",
            },
        ),
        (
            f"bind {URI} {ENTRY} --credentials pw",
            {f"{OPERATION}.bind.password": "pw"},
        ),
        (f"bind {URI} --anonymous", {f"{OPERATION}.bind.anonymous": True}),
    ],
)
def test_options_are_the_keys_of_the_job(
    line: str, wanted: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(line, capsys)
    assert {path: value_at(job, path) for path in wanted} == wanted


@pytest.mark.parametrize(("option", "warnings"), [("", 0), ("--reconnect-every 1h", 1)])
def test_a_bind_with_a_filter_searches_first_and_not_as_the_user_before(
    option: str, warnings: int, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"bind {URI} {BASE} -f '(uid=user.[0-9])' -s sub --credentials pw {option}"
    job = job_of(line, capsys)
    assert [kind for _, kind in job.streams[0].request_names] == ["search", "bind"]
    assert len(list(doubts(job))) == warnings


FAULTS = [
    (f"search {URI} -b dc", "-b: expected a DN"),
    (f"search {URI} {BASE} -f '(uid='", "-f: expected a filter"),
    (f"search {URI} {BASE} -s deep", "-s: expected "),
    (f"search {URI} {BASE} -r fast", "-r: expected a rate"),
    (f"search {URI} {BASE} -c 0", "-c: expected "),
    (f"search {URI} {BASE} --threshold 'p98 < 5ms'", "--threshold: expected "),
    (f"search {URI} {BASE} --expect noSuch", "--expect: "),
    (f"search {URI} {BASE} --ca-file none.pem", "--ca-file: expected a file"),
    (f"search {URI} {BASE} --set run.durration=1s", "--set:1: "),
    ("search ldaps://x:99999 -b ''", "URI: expected a port"),
    (f"modify {URI} {ENTRY} -a 'bad!name=x'", "-a: expected an attribute"),
    # that do not go together
    (f"search {URI} {BASE} -y f", "-y needs -D"),
    (f"search {URI} {BASE} -D cn=a -y f --password-env N", "give one of them"),
    (f"search {URI} {BASE} -U me", "-U is for a SASL bind"),
    (f"search {URI} {BASE} -Y EXTERNAL -D cn=a -y f", "-D is for a simple bind"),
    (f"modify {URI} {ENTRY}", "Missing option '-a'"),
    (f"modify {URI} {ENTRY} -a mail", "-a: expected NAME=TEXT"),
    (f"add {URI} -e cn=a,dc=x", "adds need -e DN and -a NAME=TEXT"),
    (f"add {URI} --template person.template", "--template needs --under"),
    (f"bind {URI} {ENTRY}", "binds need -e DN and --credentials"),
    (f"bind {URI} -f '(a=b)'", "-f needs -b DN and --credentials"),
    ("search -b dc=x", "URI"),
]


@pytest.mark.parametrize(("line", "message"), FAULTS)
def test_faults_name_the_option(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*words_of(line), "--print-job"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in " ".join(captured.err.split())
    assert "streams[" not in captured.err


@pytest.mark.parametrize(
    "text",
    ["007", "1e3", "1_000", "0x1F", "12:30", "yes", "null", "~", "- a", "a: b", "#c"],
)
def test_a_text_stays_the_text_that_it_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"modify {URI} -e cn=a,dc=x -a sn={shlex.quote(text)}"
    job = job_of(line, capsys)
    assert value_at(job, f"{OPERATION}.modify.replace") == {"sn": [text]}


# `run -d -r -c`: what they change of a job file.


JOB = """\
name: lookups
targets: {directory: ldap://ds1.example.com}
vars: {clients: 4}
run: {duration: 10s}
streams:
  - name: s0
    target: directory
    load: LOAD
    operations: [{search: {base: "dc=x"}}]
"""
CLOSED, OPEN = "{clients: '${clients}', think_time: 1ms}", "{rate: 50/s, in_flight: 2}"


@pytest.mark.parametrize(
    ("load", "options", "changed"),
    [
        (CLOSED, "-c 9", {"clients": 9, "think_time": "1ms"}),
        (CLOSED, "-r 5/s", {"rate": "5/s", "connections": 4}),
        (CLOSED, "-r 5/s -c 9", {"rate": "5/s", "connections": 9}),
        (CLOSED, "--set streams.s0.load.clients=7 -r 5/s", {"connections": 7}),
        (OPEN, "-c 9", {"rate": "50/s", "in_flight": 2, "connections": 9}),
        (OPEN, "-r 5/s", {"rate": "5/s", "in_flight": 2}),
    ],
)
def test_the_load_of_the_only_stream_is_changed(
    load: str,
    options: str,
    changed: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("LOAD", load))
    line = f"run {path} -d 3s {options} --print-job"
    assert main.run(shlex.split(line)) == ExitCode.PASS
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["run"] == {"duration": "3s"}
    assert job["streams"][0]["load"].items() >= changed.items()
    assert ("think_time" in job["streams"][0]["load"]) == ("think_time" in changed)
