# SPDX-License-Identifier: Apache-2.0
"""`run --cleanup` of a run that nothing is known of."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.measure.cleanup import clean_up_run


@pytest.mark.parametrize("run", ["latest", "20261121-1424", "results/nowhere"])
def test_what_is_no_run_is_not_said_to_be_clean(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected the id of a run"):
        clean_up_run(run, tmp_path, tmp_path, pytest.fail)


def test_a_run_that_left_nothing_is_said_to_be_clean(tmp_path: Path) -> None:
    lines: list[str] = []
    code = clean_up_run("20261121-142447-c7a201", tmp_path, tmp_path, lines.append)
    assert code is ExitCode.PASS
    assert "no entries are left" in lines[0]
