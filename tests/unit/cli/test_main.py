# SPDX-License-Identifier: Apache-2.0
"""How a command ends: the exit code, what is said, and where the trace goes."""

from __future__ import annotations

import json
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from ldapslam.cli import main
from ldapslam.cli.console import json_option
from ldapslam.jobs.errors import (
    ConfigError,
    ExitCode,
    NotEnoughAgents,
    RunAborted,
    TargetUnreachable,
)

End = Callable[[], ExitCode | None]


@pytest.fixture(autouse=True)
def kept_signal_handler() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Callable[[End], int]:
    """Run `ldapslam list` with a command that ends in the given way; the exit code."""

    def run(end: End, *arguments: str) -> int:
        @click.command("list")
        @json_option
        def command(as_json: bool) -> ExitCode | None:
            return end()

        monkeypatch.setattr(main.Commands, "get_command", lambda *_: command)
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
    ],
    ids=str,
)
def test_each_end_has_its_exit_code(
    ending: Callable[..., int], end: End, code: int
) -> None:
    assert ending(end) == code


def test_an_unexpected_exception_is_70_and_its_trace_is_in_a_file(
    ending: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ending(raising(ZeroDivisionError("by nought"))) == 70
    said = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: by nought" in said
    named = re.search(r"(\S+\.log)", said)
    assert named is not None
    assert "ZeroDivisionError: by nought" in Path(named[1]).read_text()


def test_with_json_an_error_is_the_document_on_stdout(
    ending: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(raising(ConfigError("wrong", hint="right")), "--json") == 2
    captured = capsys.readouterr()
    assert captured.err == "wrong\nhint: right\n"
    assert json.loads(captured.out)["error"]["hint"] == "right"


def test_sigterm_interrupts_like_ctrl_c(ending: Callable[..., int]) -> None:
    def end() -> None:
        signal.raise_signal(signal.SIGTERM)

    assert ending(end) == 130
