# SPDX-License-Identifier: Apache-2.0
"""Operations without a job file: the jobs that they stand for, faults by option."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

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
    """The words of a line without `quick`."""
    words = shlex.split(line)
    return words if words[0] in ("mix", "compare") else ["quick", *words]


def printed(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = main.run([*words_of(line), "--print-job"])
    captured = capsys.readouterr()
    assert code == ExitCode.PASS, captured.err
    return captured.out


def job_of(line: str, capsys: pytest.CaptureFixture[str]) -> Job:
    text = printed(line, capsys)
    return load_job_text(text, file="printed", base=Path.cwd())


def body_of(job: Job, operation: int = 0, stream: int = 0) -> dict[str, Any]:
    one = job.streams[stream].operations[operation]
    dumped = one.model_dump(mode="json", by_alias=True, exclude_none=True)
    body: dict[str, Any] = dumped[one.kind]
    return body


def test_the_printed_job_says_which_command_made_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(f"search {URI} {BASE} -f '(cn=a b)' -d 5s", capsys)
    assert text.startswith(
        f"# ldapslam quick search {URI} {BASE} -f '(cn=a b)' -d 5s\n"
        "# `ldapslam run` takes this file"
    )


def test_the_job_has_the_name_that_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"search {URI} {BASE} -f (cn=a)"
    assert job_of(line, capsys).name == "search"
    assert job_of(f"{line} --name staff-lookups", capsys).name == "staff-lookups"


def test_the_printed_job_is_the_one_that_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Job, Job]] = []

    def run(source: Any, agents: int, overrides: Any, out: Path, **_: Any) -> ExitCode:
        assert (agents, tuple(overrides), out) == (
            2,
            ("run.interval=500ms",),
            Path("o"),
        )
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


def test_a_closed_loop_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    [stream] = job_of(f"search {URI} {BASE}", capsys).streams
    assert stream.load.kind == "closed"
    assert stream.load.clients == 16
    job = job_of(f"search {URI} {BASE} -c 4 --think-time 5ms -d 1m", capsys)
    assert job.run.duration_ns == 60_000_000_000
    load = job.streams[0].load
    assert (load.clients, load.think_time_ns) == (4, 5_000_000)


@pytest.mark.parametrize(
    ("rate", "per_s"), [("500/s", 500), ("2k/s", 2000), ("1.5k/s", 1500), ("90/m", 1.5)]
)
def test_a_rate_makes_an_open_loop(
    rate: str, per_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"search {URI} {BASE} -r {rate} -c 8"
    opened = job_of(line, capsys).streams[0].load
    assert opened.rate is not None
    assert opened.rate.per_s == per_s
    assert opened.connections == 8


def test_a_count_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(f"delete {URI} {ENTRY} -n 1000", capsys)
    assert job.streams[0].count == 1000


def test_identity_and_tls_are_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"search {URI} {BASE} -D cn=admin,dc=x -y pw -Z --ca-file ca.pem --no-verify"
    job = job_of(line, capsys)
    assert job.bind is not None
    assert job.bind.dn == "cn=admin,dc=x"
    assert job.bind.secret is not None
    assert job.bind.secret.file == str(Path.cwd() / "pw")
    assert (job.tls.start_tls, job.tls.ca_file, job.tls.verify) == (
        *(True, "ca.pem", False),
    )
    job = job_of(
        f"search {URI} {BASE} -Y SCRAM-SHA-256 -U me --password-env PW", capsys
    )
    assert job.bind is not None
    assert job.bind.sasl is not None
    assert job.bind.sasl.mechanism == "SCRAM-SHA-256"
    assert job.bind.secret is not None
    assert job.bind.secret.env == "PW"


def test_everything_of_a_search_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(
        f"search {URI} {BASE} -s one -f '(uid=user.[0-9])' -a cn,mail -a sn "
        "--expect noSuchObject,referral --reconnect-every 10 --seed 7 --warm-up 1s "
        "--set streams.load.operations.search.size_limit=10",
        capsys,
    )
    body = body_of(job)
    assert body["attributes"] == ["cn", "mail", "sn"]
    assert (body["scope"], body["size_limit"]) == ("one", 10)
    [operation] = job.streams[0].operations
    assert operation.expect == [0, 32, 10]
    assert job.streams[0].connection.reconnect_operations == 10
    assert job.seed == 7
    assert job.run.warm_up_ns == 1_000_000_000


@pytest.mark.parametrize("text", ["p99 < 20ms", "load.search.errors < 1%"])
def test_a_threshold_is_the_jobs(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(f"search {URI} {BASE} --threshold '{text}'", capsys)
    assert job.thresholds == [text]


@pytest.mark.parametrize(
    ("line", "kind", "wanted"),
    [
        (
            f"modify {URI} {ENTRY} -a mail=[random:8]@x -a title=a -a title=b",
            "modify",
            {"replace": {"mail": ["[random:8]@x"], "title": ["a", "b"]}},
        ),
        (
            f"add {URI} -e cn=[unique],dc=x -a objectClass=top -a objectClass=person "
            "-a sn=x --keep",
            "add",
            {"clean_up": False},
        ),
        (
            f"add {URI} --template person.template --under dc=x",
            "add",
            {"template": "person.template", "under": "dc=x"},
        ),
        (f"bind {URI} {ENTRY} --credentials pw", "bind", {"password": "pw"}),
        (f"bind {URI} --anonymous", "bind", {"anonymous": True}),
    ],
)
def test_each_operation_can_be_said(
    line: str, kind: str, wanted: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(line, capsys)
    assert job.streams[0].operations[0].kind == kind
    body = body_of(job)
    assert {key: body.get(key) for key in wanted} == wanted


def test_a_bind_with_a_filter_searches_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"bind {URI} {BASE} -f '(uid=user.[0-9])' -s sub --credentials pw"
    [operation] = job_of(line, capsys).streams[0].operations
    assert operation.kind == "sequence"
    names = job_of(line, capsys).streams[0].request_names
    assert [kind for _, kind in names] == ["search", "bind"]


@pytest.mark.parametrize(("option", "warnings"), [("", 0), ("--reconnect-every 1h", 1)])
def test_a_login_does_not_search_as_the_user_before(
    option: str, warnings: int, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"bind {URI} {BASE} -f '(uid=user.[0-9])' --credentials pw {option}"
    assert len(list(doubts(job_of(line, capsys)))) == warnings


FAULTS = [
    (f"search {URI} {BASE} -d 30", "-d: expected a duration"),
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
]


@pytest.mark.parametrize(("line", "message"), FAULTS)
def test_faults_name_the_option(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*words_of(line), "--print-job"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message), captured.err
    assert "streams[" not in captured.err


USAGE = [
    (f"search {URI} {BASE} -w secret", "-w: a password is not taken"),
    (f"search {URI} {BASE} -D cn=a", "-D needs its password"),
    (f"search {URI} {BASE} -y f", "-y needs -D"),
    (f"search {URI} {BASE} -D cn=a -y f --password-env N", "give one of them"),
    (f"search {URI} {BASE} -U me", "-U is for a SASL bind"),
    (f"search {URI} {BASE} -Y EXTERNAL -D cn=a -y f", "-D is for a simple bind"),
    (f"search {URI} {BASE} -r 5/s --think-time 1s", "closed loop"),
    (f"modify {URI} {ENTRY}", "Missing option '-a'"),
    (f"modify {URI} {ENTRY} -a mail", "-a: expected NAME=TEXT"),
    (f"add {URI} -e cn=a,dc=x", "adds need -e DN and -a NAME=TEXT"),
    (f"add {URI} --template person.template", "--template needs --under"),
    (f"bind {URI} {ENTRY}", "binds need -e DN and --credentials"),
    (f"bind {URI} -f '(a=b)'", "-f needs -b DN and --credentials"),
    ("compare 20261121-1", "two sides are needed to compare"),
    (f"compare {URI}", "two sides are needed to compare"),
    ("search -b dc=x", "URI"),
]


@pytest.mark.parametrize(("line", "message"), USAGE)
def test_options_that_do_not_go_together_say_so(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words_of(line)) == ExitCode.USAGE
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "text",
    ["007", "1e3", "1_000", "0x1F", "12:30", "yes", "null", "~", "- a", "a: b", "#c"],
)
def test_a_text_stays_the_text_that_it_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"modify {URI} -e cn=a,dc=x -a sn={shlex.quote(text)}"
    assert body_of(job_of(line, capsys))["replace"] == {"sn": [text]}
