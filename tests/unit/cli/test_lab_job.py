# SPDX-License-Identifier: Apache-2.0
"""Where `lab up --job` writes its job, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli.data.lab import lab_job_path


def test_it_takes_the_place_of_its_own_file_alone(tmp_path: Path) -> None:
    job = tmp_path / "search.yaml"
    made = lab_job_path(job, "search", "lab")
    assert made == tmp_path / "search-lab.yaml"
    made.write_text("extends: search.yaml\nname: search-lab\n")
    assert lab_job_path(job, "search", "lab") == made
    made.write_text("name: mine\n")
    with pytest.raises(ConfigError, match="of another kind"):
        lab_job_path(job, "search", "lab")


@pytest.mark.parametrize("lab", ["slapd-2.6", "x" * 70])
def test_a_name_that_no_job_may_have_is_refused(tmp_path: Path, lab: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a job"):
        lab_job_path(tmp_path / "search.yaml", "search", lab)
