# SPDX-License-Identifier: Apache-2.0
"""What `submit` refuses before it asks a coordinator."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ldapslam.base.errors import ConfigError, ExitCode, LdapSlamError
from ldapslam.cli.fleet.submit import submit_command

#: Nobody is there: whoever asks would fail with an error of the fleet.
NOBODY = ("--coordinator", "127.0.0.1:1")


def refusal(command: click.Command, *arguments: str) -> LdapSlamError:
    error = CliRunner().invoke(command, [*arguments, *NOBODY]).exception
    assert isinstance(error, LdapSlamError)
    assert error.exit_code is ExitCode.USAGE
    return error


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--every", "0s"),
        ("--cron", ""),
        ("--cron", " "),
        ("--at", ""),
        ("--after", ""),
        ("--from", ""),
        ("--until", ""),
        ("--name", ""),
    ],
)
def test_an_option_with_nothing_in_it_is_not_an_option_left_out(
    option: str, value: str
) -> None:
    """Else the load would begin now."""
    error = refusal(submit_command, "job.yaml", option, value)
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{option}: expected ")
    assert str(error).endswith(f"got {value!r}")
    assert error.hint


def test_a_job_file_that_is_not_there_is_a_fault_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").touch()
    for options in ((), ("--at", "+1h"), ("--every", "6h")):
        error = refusal(submit_command, "nojob.yaml", *options)
        assert "nojob.yaml: cannot be read" in str(error)
