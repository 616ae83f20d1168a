# SPDX-License-Identifier: Apache-2.0
"""`ldapslam run` and `check` against real slapds: verdicts, exit codes, remedies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import tempfile
import termios
from pathlib import Path

import psutil
import pytest
import yaml

from ldapslam.agent._engine import Responder
from support.busy_host import VALIDITY
from support.command_line import COMMAND, Running, check_ldapslam, environment, ldapslam
from support.fake_ldap import FakeLdap, Peer, Request, answer, result
from support.lab import Lab

REPORTS = {
    "report.html",
    "report.pdf",
    "report.txt",
    "result.json",
    "intervals.csv",
    "histograms.hlog",
    "results.sqlite",
    "logs",
}
DRAWN = {"report.html", "report.pdf"}

JOB = (
    VALIDITY
    + """\
name: lookups
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
{tls}
run: {{duration: {duration}, interval: 500ms}}
streams:
  - name: readers
    target: directory
    load: {{clients: 2, think_time: 2ms}}
    operations:
      - search: {{base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-999])"}}
{rest}
"""
)


def write_job(
    folder: Path,
    lab: Lab,
    *,
    tls: str = "",
    duration: str = "1s",
    rest: str = "",
    **others: str | Path,
) -> Path:
    path = folder / "job.yaml"
    path.write_text(lab.job(JOB, tls=tls, duration=duration, rest=rest, **others))
    return path


def children_of(folder: Path) -> list[str]:
    """Command lines of processes that mention a folder, or that log below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            log = os.readlink(process / "fd" / "2")
        except OSError:
            continue
        if str(folder) in command + log and int(process.name) != os.getpid():
            found.append(command)
    return found


# -- verdicts --------------------------------------------------------------------------


def test_a_good_run_ends_with_0_and_all_reports(lab: Lab, tmp_path: Path) -> None:
    job = write_job(tmp_path, lab, rest="thresholds: [readers.search.errors < 1%]")
    ended = check_ldapslam("run", job, "--agents", "2", cwd=tmp_path, draws=True)

    assert ended.stdout.startswith("PASS  lookups")
    # a line for each interval: 1 s in intervals of 500 ms
    lines = [line for line in ended.stderr.splitlines() if " measure " in line]
    assert len(lines) == 2, ended.stderr
    assert "readers" in lines[0]
    assert " p50 " in lines[0]
    [folder] = (tmp_path / "ldapslam-runs").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == REPORTS
    # other commands find it, and leave nothing beside it
    [listed] = json.loads(ldapslam("list", "--local", "--json", cwd=tmp_path).stdout)
    assert (listed["run_id"], listed["verdict"]) == (folder.name, "PASS")
    watched = ldapslam("fleet", "watch", folder.name[:15], "--local", cwd=tmp_path)
    assert watched.stdout == ended.stdout
    assert (
        ldapslam("results", "verify", "latest", "--local", cwd=tmp_path).returncode == 0
    )
    assert {path.name for path in folder.iterdir()} == REPORTS
    assert str(Path("ldapslam-runs") / folder.name / "report.html") in ended.stderr
    logs = {path.stem for path in (folder / "logs").iterdir()}
    assert logs >= {"coordinator", "local-1", "local-2"}


def test_a_missed_threshold_ends_with_1_and_json_makes_stdout_one_document(
    lab: Lab, tmp_path: Path
) -> None:
    """Load of LDAP with StartTLS, LDAPS and LDAPI, each in a stream of its own."""
    server, ca_file = lab.supplier, f"ca_file: {lab.ca_file}"
    uris = {"ldaps": server.ldaps_uri, "ldapi": server.ldapi_uri}
    rest = 'thresholds: ["readers.search.response_time.p50 < 1us"]'
    tls = f"tls: {{start_tls: true, {ca_file}}}"
    job = write_job(tmp_path, lab, tls=tls, rest=rest)
    document = yaml.safe_load(job.read_text())
    document["targets"] |= uris
    for name in uris:
        stream = {**document["streams"][0], "name": name, "target": name}
        stream["tls"] = {"ca_file": str(lab.ca_file)}
        document["streams"].append(stream)
    job.write_text(yaml.safe_dump(document))
    checked = ldapslam("check", job)
    ready = f"{server.uri}: ready, as {lab.admin_dn}, with TLS"
    assert ready in checked.stdout, checked.stderr
    ended = ldapslam("run", job, "--json", "--out", "here", cwd=tmp_path)

    assert ended.returncode == 1, ended.stderr
    result = json.loads(ended.stdout)
    assert result["verdict"] == "FAIL"
    assert "FAIL  lookups" in ended.stderr  # for a log without stdout
    assert result == json.loads((tmp_path / "here" / "result.json").read_text())
    assert (tmp_path / "here").stat().st_mode & 0o777 == 0o700
    link = tmp_path / "ldapslam-runs" / result["run_id"]
    assert link.readlink() == Path("../here")
    assert result["streams"].keys() == {"readers", *uris}
    for stream in result["streams"].values():
        search = stream["search"]
        assert search["succeeded"] == search["entries_returned"] > 0


def test_a_server_that_goes_away_makes_the_run_fail(tmp_path: Path) -> None:
    responder = Responder()
    responder.start()
    words = ("quick", "search", responder.uri, "-b", "dc=x", "-c", "2", "-d", "3s")
    with Running(*words, "--out", "here", cwd=tmp_path) as run:
        run.wait_for_text(" measure ")
        responder.stop()
        assert run.wait() == 1, run.stderr
    result = json.loads((tmp_path / "here" / "result.json").read_text())
    missed = {
        one["expression"]: one for one in result["thresholds"] if not one["passed"]
    }
    assert any(".outage.share " in expression for expression in missed)
    assert any("unavailable for" in reason for reason in result["reasons"])


# -- usage -----------------------------------------------------------------------------


def test_a_folder_that_cannot_be_used_ends_with_2_and_changes_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    """tests/unit/cli/test_mistakes.py has other mistakes."""
    job = write_job(tmp_path, lab)
    (tmp_path / "here").mkdir()
    results = tmp_path / "here" / "results.sqlite"
    results.write_bytes(b"precious")
    for folder, said in (
        (job / "below-a-file", "cannot be made"),
        (tmp_path / "here", "holds the results of another run"),
    ):
        ended = ldapslam("run", job, "--out", folder, cwd=tmp_path)
        assert ended.returncode == 2
        assert said in ended.stderr
        assert "hint: " in ended.stderr
    assert results.read_bytes() == b"precious"
    assert set(tmp_path.iterdir()) == {job, tmp_path / "here"}


# -- targets ---------------------------------------------------------------------------


def test_an_unusable_target_ends_with_6_and_the_remedy_before_any_load(
    lab: Lab, tmp_path: Path
) -> None:
    """tests/integration/test_mistakes.py has the remedy of each fault."""
    wrong = tmp_path / "wrong-password"
    wrong.write_text("not the password")
    before = lab.monitor_counts(lab.supplier)["search"]

    ended = ldapslam("run", write_job(tmp_path, lab, password_file=wrong), cwd=tmp_path)

    assert ended.returncode == 6, ended.stderr
    assert "result code 49" in ended.stderr
    hints = [x for x in ended.stderr.splitlines() if x.startswith("hint: ")]
    assert len(hints) == 1
    assert "`bind.password`" in hints[0]
    assert lab.monitor_counts(lab.supplier)["search"] == before
    assert not (tmp_path / "ldapslam-runs").exists()


# -- interruption ----------------------------------------------------------------------


def test_an_interrupted_run_drains_reports_and_ends_with_130(
    lab: Lab, tmp_path: Path
) -> None:
    job = write_job(tmp_path, lab, duration="60s")
    with Running("run", job, "--out", "here", cwd=tmp_path) as run:
        run.wait_for_text(" measure ")
        run.interrupt()
        assert run.wait() == 130, run.stderr
    result = json.loads((tmp_path / "here" / "result.json").read_text())
    assert result["verdict"] == "INVALID"
    assert result["totals"]["readers.search"]["succeeded"] > 0
    assert {path.name for path in (tmp_path / "here").iterdir()} == REPORTS - DRAWN
    assert children_of(tmp_path) == []


def test_a_second_interrupt_keeps_what_was_measured(lab: Lab, tmp_path: Path) -> None:
    job = write_job(tmp_path, lab, duration="60s")
    with Running("run", job, cwd=tmp_path) as run:
        run.wait_for_text(" measure ")
        # the first is a SIGTERM, which is the same
        run.process.terminate()
        run.wait_for_text("again to end at once")
        run.interrupt()
        assert run.wait() == 130, run.stderr
    [folder] = (tmp_path / "ldapslam-runs").iterdir()
    check_ldapslam("report", folder, "--format", "text", cwd=tmp_path)
    assert "INVALID" in (folder / "report.txt").read_text()


def test_a_run_terminated_before_its_load_ends_with_130_and_leaves_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # the kernel accepts, nobody answers
        uri = f"ldap://127.0.0.1:{silent.getsockname()[1]}"
        job = write_job(tmp_path, lab, uri=uri)
        with Running("run", job, "--out", "here", cwd=tmp_path) as run:
            run.wait_for_text(" is preparing")
            run.process.terminate()
            assert run.wait() == 130, run.stderr
    assert "before any load" in run.stderr
    assert run.stdout == ""
    assert not (tmp_path / "here").exists()
    assert children_of(tmp_path) == []


def test_nothing_is_left_of_a_run_that_was_killed(lab: Lab, tmp_path: Path) -> None:
    job = write_job(tmp_path, lab, duration="60s")
    # a short path: the coordinator's socket is below it
    with (
        tempfile.TemporaryDirectory() as scratch,
        Running(
            *("run", job, "--out", "here"), cwd=tmp_path, variables={"TMPDIR": scratch}
        ) as run,
    ):
        run.wait_for_text(" measure ")
        processes = psutil.Process(run.process.pid).children(recursive=True)
        assert len(processes) >= 3  # coordinator, agent, engine
        run.process.send_signal(signal.SIGKILL)
        run.wait()
        _, alive = psutil.wait_procs(processes, timeout=30)
        assert not alive
        assert not list(Path(scratch).iterdir())


# Commands that need neither directory nor fleet.


def test_the_generator_is_measured_and_judged() -> None:
    ended = ldapslam("check", "--generator", "--json")
    # a busy machine is honestly found unfit
    assert ended.returncode in (0, 3), ended.stderr
    result = json.loads(ended.stdout)
    assert result["verdict"] == ("fit" if ended.returncode == 0 else "not fit")
    assert result["ceiling"]["throughput_per_s"] > 1_000
    assert 0 < result["ceiling"]["cpu_us_per_op"] < 1_000
    # 4 s at 5,000/s
    assert result["pacing"]["completed"] == pytest.approx(20_000, rel=0.05)
    assert result["pacing"]["percentiles_us"]["send_lag"]["p99"] >= 0
    assert result["host"]["ephemeral_ports"] > 0
    assert result["host"]["files_hard"] != 0


def test_completion_scripts_call_back_into_the_command() -> None:
    for shell in ("bash", "zsh", "fish"):
        ended = check_ldapslam("--completion", shell)
        assert f"_LDAPSLAM_COMPLETE={shell}_complete" in ended.stdout
    words = {"COMP_WORDS": "ldapslam gat", "COMP_CWORD": "1"}
    ended = ldapslam(variables={"_LDAPSLAM_COMPLETE": "bash_complete", **words})
    assert ended.stdout.split() == ["plain,gate"]


def test_a_job_file_may_be_stdin() -> None:
    search = ldapslam("quick", "search", "ldap://ds1", "-b", "dc=x", "--print-job")
    for command in (["check", "--offline"], ["run", "--print-job"]):
        ended = subprocess.run(
            [*COMMAND, *command, "-"],
            input=search.stdout,
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    job = yaml.safe_load(ended.stdout)
    assert job == yaml.safe_load(search.stdout)


def test_a_closed_pipe_does_not_change_the_exit_code() -> None:
    with subprocess.Popen(
        [*COMMAND, "describe", "streams"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


# On a terminal: the live view, and its last lines.


BLOCKS = set("▁▂▃▄▅▆▇█")
#: Select Graphic Rendition with a colour.
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")

COMPARE_REQUEST, BUSY = 0x6E, 51


def busy_to_compare(peer: Peer, request: Request) -> bool:
    if request.tag == COMPARE_REQUEST:
        return peer.send(result(request, BUSY))
    return answer(peer, request)


def screen_of(folder: Path, **variables: str) -> str:
    """What a run of a second writes to a terminal of 100 columns."""
    with FakeLdap(busy_to_compare) as server:
        job = {
            "name": "seen",
            "targets": {"directory": server.uri},
            "run": {"duration": "1s", "interval": "250ms"},
            "streams": [
                {
                    "name": "readers",
                    "target": "directory",
                    "load": {"clients": 1, "think_time": "5ms"},
                    "operations": [{"search": {"base": "", "scope": "base"}}],
                },
                {
                    "name": "failing",
                    "target": "directory",
                    "load": {"clients": 1, "think_time": "50ms"},
                    "operations": [
                        {"compare": {"dn": "cn=a", "attribute": "cn", "value": "a"}}
                    ],
                },
            ],
        }
        (folder / "job.yaml").write_text(json.dumps(job))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen(
            [*COMMAND, "run", "job.yaml", "--out", "o"],
            cwd=folder,
            env=environment({"TERM": "xterm-256color", **variables}),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while piece := os.read(ours, 65536):
                written += piece
        os.close(ours)
        process.wait()
    return written.decode()


def test_a_run_is_a_live_table_with_curves(tmp_path: Path) -> None:
    screen = screen_of(tmp_path)
    rows = re.findall(r"readers search.*", screen)
    assert rows, screen
    drawn = [set(row) & BLOCKS for row in rows]
    assert any(drawn), rows
    assert COLOUR.search(screen) is not None  # of errors
    # the table goes, the news and the files stay
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 1
    left = screen.rpartition("\x1b[?25h")[2]
    assert "o/report.html" in left
    assert not BLOCKS & set(left)


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "is_live"),
    [({"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)],
    ids=["ascii", "dumb"],
)
def test_a_poorer_terminal_gets_what_it_can_show(
    tmp_path: Path, variables: dict[str, str], is_live: bool
) -> None:
    screen = screen_of(tmp_path, **variables)
    assert not BLOCKS & set(screen)
    assert COLOUR.search(screen) is None
    assert ("readers search" in screen) is is_live
    assert (
        bool(re.search(r" measure +readers [\d,]+ requests/s p50", screen))
        is not is_live
    )
    assert ("\x1b[?25l" in screen) is is_live
