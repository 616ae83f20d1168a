# SPDX-License-Identifier: Apache-2.0
"""The commands that need neither directory nor fleet, as processes."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml

from support.command_line import COMMAND, check_ldapslam, environment, ldapslam


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
