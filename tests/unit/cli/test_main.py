# SPDX-License-Identifier: Apache-2.0
"""How a command ends: the exit code, what is said, and where the trace goes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from ldapslam.base.errors import (
    ConfigError,
    ExitCode,
    JobErrors,
    LdapSlamError,
    NotEnoughAgents,
    RunAborted,
    TargetUnreachable,
)
from ldapslam.cli import main
from ldapslam.cli.command import command
from ldapslam.cli.command_tree import Commands

End = Callable[[], Any]
Ending = Callable[..., int]


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ending:
    """Run `ldapslam list` with a command that ends in the given way; the exit code.
    Traces go to an empty folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(end: End, *arguments: str) -> int:
        @command("list")
        def list_command() -> Any:
            return end()

        monkeypatch.setattr(Commands, "get_command", lambda *_: list_command)
        return main.run(["list", *arguments])

    return run


def raising(error: BaseException) -> End:
    def end() -> None:
        raise error

    return end


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda: None, 0),
        (lambda: ExitCode.PASS, 0),
        (lambda: ExitCode.FAIL, 1),
        (lambda: ExitCode.INVALID, 3),
        (raising(ConfigError("x")), 2),
        (raising(click.UsageError("x")), 2),
        (raising(RunAborted("x")), 3),
        (raising(NotEnoughAgents("2 agents", [])), 5),
        (raising(TargetUnreachable("ldap://x", "y")), 6),
        (raising(KeyboardInterrupt()), 130),
        (raising(click.Abort()), 130),
        # as Ctrl-C
        (lambda: signal.raise_signal(signal.SIGTERM), 130),
        (raising(asyncio.CancelledError()), 70),
        (raising(GeneratorExit()), 70),
        (lambda: "neither a code nor nothing", 70),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "end",
)
def test_each_end_has_its_exit_code(ending: Ending, end: End, code: int) -> None:
    assert ending(end) == code


def test_an_unexpected_exception_is_70_and_its_trace_is_in_a_file_without_passwords(
    ending: Ending,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    url = "postgresql://u:hunter2@db/x"
    monkeypatch.setattr(sys, "argv", ["ldapslam", "coordinator", "--store", url])
    assert ending(raising(ValueError(f"bad {url}"))) == 70
    said = capsys.readouterr().err
    [log] = tmp_path.iterdir()
    assert str(log) in said
    for text in (said, log.read_text()):
        assert "hunter2" not in text
        assert "ValueError: bad postgresql://u:***@db/x" in text


def test_a_trace_that_cannot_be_kept_is_shown(
    ending: Ending, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    assert ending(raising(ZeroDivisionError("by nought"))) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "name", "error", "code"),
    [
        (main, "complain", ZeroDivisionError(), 70),
        # nobody reads stderr
        (click, "echo", BrokenPipeError(), 2),
    ],
)
def test_an_error_that_cannot_be_told(
    ending: Ending,
    monkeypatch: pytest.MonkeyPatch,
    place: object,
    name: str,
    error: Exception,
    code: int,
) -> None:
    monkeypatch.setattr(place, name, lambda *_, **__: raising(error)())
    assert ending(raising(ConfigError("x"))) == code


@pytest.mark.parametrize("json_option", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "values",
    [
        {"exit_code": 0},
        {"exit_code": "none", "hint": {"no": "text"}},
        {"faults": 7},
        {"faults": [None, "text"]},
        {"faults": []},
    ],
    ids=str,
)
def test_what_another_host_says_of_an_error_does_not_change_its_exit_code(
    ending: Ending,
    capsys: pytest.CaptureFixture[str],
    values: dict[str, object],
    json_option: list[str],
) -> None:
    error = JobErrors([])
    error.args = ("what failed",)
    vars(error).update(values)
    assert ending(raising(error), *json_option) == 2
    captured = capsys.readouterr()
    assert captured.err == "what failed\n"
    if json_option:
        assert json.loads(captured.out)["error"]["exit_code"] == 2


def test_an_error_without_any_of_its_values_can_be_told(
    ending: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    error = LdapSlamError.__new__(LdapSlamError)
    assert ending(raising(error), "--json") == 70
    assert json.loads(capsys.readouterr().out)["error"]["hint"] is None


def test_with_json_an_error_is_the_document_on_stdout(
    ending: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(raising(ConfigError("wrong", hint="right")), "--json") == 2
    captured = capsys.readouterr()
    assert captured.err == "wrong\nhint: right\n"
    error = json.loads(captured.out)["error"]
    assert (error["class"], error["message"], error["hint"], error["exit_code"]) == (
        *("ConfigError", "wrong", "right", 2),
    )


def test_with_json_wrong_usage_is_a_document_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["--json", "list", "--nonsense"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 2


@pytest.mark.parametrize("is_before", [True, False])
def test_an_output_is_written_once_and_may_be_what_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_before: bool
) -> None:
    """By commands with an option of their own for it, and by others."""
    monkeypatch.chdir(tmp_path)

    def run(output: str, *words: str) -> int:
        option = ["-o", output]
        return main.run([*option, *words] if is_before else [*words, *option])

    assert run("job.yaml", "new", "search") == 0
    job = Path("job.yaml").read_text()
    assert "\nstreams:" in job
    assert run("job.yaml", "check", "nothing.yaml") == 2
    assert Path("job.yaml").read_text() == job
    assert run("same.yaml", "run", "job.yaml", "--print-job") == 0
    assert "streams:" in Path("same.yaml").read_text()
    assert run("job.yaml", "check", "job.yaml", "--offline") == 0
    assert "streams:" not in Path("job.yaml").read_text()
    assert run("/dev/full", "describe", "load") == 2
    assert run("-", "report", "latest") == 2
    assert sorted(os.listdir()) == ["job.yaml", "same.yaml"]


_TALK = """
import os, sys
import ldapslam.cli.main
assert "grpc" not in sys.modules
print(os.environ["GRPC_VERBOSITY"])
"""


@pytest.mark.parametrize(
    ("given", "found"), [({}, "NONE"), ({"GRPC_VERBOSITY": "INFO"}, "INFO")]
)
def test_grpc_prints_nothing_of_its_own_unless_it_is_asked_to(
    given: dict[str, str], found: str
) -> None:
    variables = {k: v for k, v in os.environ.items() if k != "GRPC_VERBOSITY"} | given
    ended = subprocess.run(
        [sys.executable, "-c", _TALK],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.split() == [found]


def test_a_job_file_without_a_command_is_answered_with_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "search.yaml"
    job.touch()
    assert main.run([str(job)]) == ExitCode.USAGE
    assert f"`ldapslam run {job}`" in capsys.readouterr().err


def test_the_help_has_every_command_below_a_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line.split()[0] for line in lines if re.match("  [a-z]+  ", line)]
    with click.Context(main.cli) as context:
        assert commands == main.cli.list_commands(context)
    assert "Measure:" in lines
