# SPDX-License-Identifier: Apache-2.0
"""One-line commands: the jobs that they stand for, and faults in the user's words."""

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
    (tmp_path / "rates.csv").write_text("0,100\n10,200\n")
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
    line = f"search {URI} {BASE} -r {rate} --arrivals poisson --in-flight 2 -c 8"
    opened = job_of(line, capsys).streams[0].load
    assert opened.rate is not None
    assert opened.rate.per_s == per_s
    assert (opened.arrivals, opened.in_flight, opened.connections) == ("poisson", 2, 8)


def test_a_file_of_rates_makes_stages(capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of(f"search {URI} {BASE} --rate-file rates.csv", capsys)
    opened = job.streams[0].load
    assert len(opened.segments()) >= 2


def test_multiples_in_a_file_of_rates_are_of_the_rate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rates = tmp_path / "rates"
    rates.write_text("0,50\n1,1.5x\n")
    job = job_of(f"search {URI} {BASE} --rate-file {rates} -r 100/s", capsys)
    opened = job.streams[0].load
    assert opened.rate is not None
    assert opened.rate.per_s == 100
    assert len(opened.segments()) >= 2


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
        f"search {URI} {BASE} -s one -f '(uid=user.[0-9])' -a cn,mail -a sn -z 10 "
        "-l 5s --deref always --types-only --page-size 100 --sort sn,-cn "
        "--expect noSuchObject,referral "
        "-J 2.16.840.1.113730.3.4.2:true -J subentries "
        "--reconnect-every 10 --connect-timeout 2s --request-timeout 3s --seed 7 "
        "--warm-up 1s --ramp-up 2s --cool-down 3s --interval 500ms",
        capsys,
    )
    body = body_of(job)
    assert body["attributes"] == ["cn", "mail", "sn"]
    assert (body["size_limit"], body["page_size"], body["types_only"]) == (
        10,
        100,
        True,
    )
    assert (body["scope"], body["deref"], body["time_limit"]) == ("one", "always", "5s")
    [operation] = job.streams[0].operations
    assert len(operation.controls) == 3
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
            f"modify {URI} {ENTRY} -a description -a title --value x",
            "modify",
            {"replace": {"description": ["x"], "title": ["x"]}},
        ),
        (
            f"modify {URI} {ENTRY} --replace mail=[random:8]@x --add-value title=a "
            "--add-value title=b --delete-value sn --increment uidNumber=1",
            "modify",
            {
                "add": {"title": ["a", "b"]},
                "delete": {"sn": []},
                "replace": {"mail": ["[random:8]@x"]},
                "increment": {"uidNumber": 1},
            },
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
        (
            f"mix {URI} --compare 1 -e uid=user.[0-9],dc=x --compare-with sn=x",
            "compare",
            {"attribute": "sn", "value": "x"},
        ),
        (f"bind {URI} {ENTRY} --credentials pw", "bind", {"password": "pw"}),
        (f"bind {URI} --anonymous", "bind", {"anonymous": True}),
        (
            f"bind {URI} -e user.[0-9] --mechanism PLAIN --credentials pw",
            "bind",
            {"sasl": {"mechanism": "PLAIN", "authcid": "user.[0-9]", "password": "pw"}},
        ),
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


def test_a_mix_has_its_weights(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        f"mix {URI} --search 10 --compare 2 --modify 1 --add 1 --delete 1 {BASE} "
        "-e uid=user.[0-9],dc=x --compare-with sn=x --template person.template "
        "--under dc=x"
    )
    [stream] = job_of(line, capsys).streams
    assert {one.kind: one.weight for one in stream.operations} == {
        **{"search": 10, "compare": 2, "modify": 1, "add": 1, "delete": 1}
    }


def test_binds_of_a_mix_have_their_part_of_the_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (
        f"mix {URI} --search 2 --bind 1 {BASE} -e uid=a,dc=x --credentials pw -r 100/s"
    )
    load, binds = job_of(f"{line} -n 10", capsys).streams
    assert load.load.kind == "open"
    assert binds.load.kind == "open"
    assert load.load.rate is not None
    assert binds.load.rate is not None
    both = load.load.rate.per_s + binds.load.rate.per_s
    assert both == pytest.approx(100, abs=1e-4)
    assert binds.load.rate.per_s == pytest.approx(100 / 3, abs=1e-4)
    assert (load.count, binds.count) == (7, 3)


FAULTS = [
    (f"search {URI} {BASE} -d 30", "-d: expected a duration"),
    (f"search {URI} -b dc", "-b: expected a DN"),
    (f"search {URI} {BASE} -f '(uid='", "-f: expected a filter"),
    (f"search {URI} {BASE} -s deep", "-s: expected "),
    (f"search {URI} {BASE} -r fast", "-r: expected a rate"),
    (f"search {URI} {BASE} -c 0", "-c: expected "),
    (f"search {URI} {BASE} -l 500ms", "-l: expected whole seconds"),
    (f"search {URI} {BASE} --threshold 'p98 < 5ms'", "--threshold: expected "),
    (f"search {URI} {BASE} --expect noSuch", "--expect: "),
    (f"search {URI} {BASE} -J 1.2", "-J"),
    (f"search {URI} {BASE} --rate-file none.csv", "--rate-file: expected a file"),
    (f"search {URI} {BASE} --ca-file none.pem", "--ca-file: expected a file"),
    (f"search {URI} {BASE} --set run.durration=1s", "--set:1: "),
    ("search ldaps://x:99999 -b ''", "URI: expected a port"),
    (f"modify {URI} {ENTRY} -a 'bad!name'", "-a: expected an attribute"),
    (f"mix {URI} --search 0 {BASE}", "--search: expected "),
]


@pytest.mark.parametrize(
    ("line", "message"), [fault for fault in FAULTS if "-J 1.2" not in fault[0]]
)
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
    (f"search {URI} {BASE} --arrivals poisson", "it needs -r"),
    (f"search {URI} {BASE} --in-flight 2", "it needs -r"),
    (f"search {URI} {BASE} -r 5/s --think-time 1s", "closed loop"),
    (f"search {URI} {BASE} -J x:true", "-J: expected OID"),
    (f"search {URI} {BASE} -J paged", "by name: subentries"),
    (f"modify {URI} {ENTRY}", "say what to modify"),
    (f"modify {URI} {ENTRY} --replace mail", "--replace: expected NAME=TEXT"),
    (f"modify {URI} {ENTRY} --increment n=x", "--increment: expected NAME=N"),
    (f"add {URI} -e cn=a,dc=x", "adds need -e DN and -a NAME=TEXT"),
    (
        f"mix {URI} --add 1 -e cn=[1:9],dc=x -a sn=x",
        "adds need --template FILE and --under DN: -e and -a are of the other",
    ),
    (f"add {URI} --template person.template", "add needs --under"),
    (f"bind {URI} {ENTRY}", "binds need -e DN and --credentials"),
    (f"bind {URI} -f '(a=b)'", "-f needs -b DN and --credentials"),
    (f"mix {URI}", "give weights"),
    (f"mix {URI} --bind 1", "`ldapslam quick bind`"),
    (f"mix {URI} --search 1", "search needs -b"),
    (f"mix {URI} --delete 1", "delete needs --add"),
    (
        f"mix {URI} --search 1 --bind 1 {BASE} -e cn=a --credentials x",
        "needs a rate (-r)",
    ),
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
    line = f"mix {URI} --compare 1 -e cn=a,dc=x --compare-with sn={shlex.quote(text)}"
    assert body_of(job_of(line, capsys))["value"] == text
