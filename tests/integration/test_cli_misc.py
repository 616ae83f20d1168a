# SPDX-License-Identifier: Apache-2.0
"""The commands that need neither directory nor fleet, as processes."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.command_line import COMMAND, environment, ldapslam


def test_selfcheck_measures_and_judges() -> None:
    ended = ldapslam("selfcheck", "--json")
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_back_into_the_command(shell: str) -> None:
    ended = ldapslam("completion", shell)
    assert ended.returncode == 0
    assert f"_LDAPSLAM_COMPLETE={shell}_complete" in ended.stdout


def test_completion_completes_commands() -> None:
    words = {"COMP_WORDS": "ldapslam sel", "COMP_CWORD": "1"}
    ended = ldapslam(variables={"_LDAPSLAM_COMPLETE": "bash_complete", **words})
    assert ended.stdout.split() == ["plain,selfcheck"]


def test_the_job_file_documents_itself() -> None:
    schema = json.loads(ldapslam("schema", "job").stdout)
    assert {"job", "targets", "run", "streams"} <= set(schema["else"]["properties"])
    assert "in_flight" in ldapslam("describe", "streams.load").stdout
    document = json.loads(ldapslam("job", "types", "--json").stdout)
    assert set(document["operations"]) >= {"search", "modify"}
    assert set(document["types"]) >= {"mix", "auth", "burst", "prime"}
    assert "burst" in ldapslam("job", "types").stdout
    assert "modifies" in ldapslam("describe", "types.search_modify").stdout


def test_a_closed_pipe_does_not_change_the_exit_code() -> None:
    with subprocess.Popen(
        [*COMMAND, "describe"],
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
