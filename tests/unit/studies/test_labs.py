# SPDX-License-Identifier: Apache-2.0
"""A lab has as many people as its job has users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldapslam.studies.labs import with_users
from ldapslam.studies.points import Point
from ldapslam.studies.study_file import StudyLab

_JOB = """
vars: {users: 100000, clients: 4}
name: lookups
targets: {directory: "ldap://127.0.0.1"}
run: {duration: 2s}
streams:
  - name: readers
    target: directory
    load: {clients: "${clients}"}
    operations:
      - search: {base: "dc=example,dc=com", filter: "(uid=user.[0..${users}))"}
"""


@pytest.mark.parametrize(
    ("section", "overrides", "lab", "users", "entries"),
    [
        ({}, (), {}, None, 100_000),
        ({}, ("vars.users=300",), {}, None, 300),
        ({"entries": 2000}, (), {}, "2000", None),
        ({"entries": 2000}, ("vars.clients=2",), {"entries": 50}, "50", 50),
        ({"entries": 2000}, ("vars.users=300",), {}, None, None),
        ({"entries": 100_000}, (), {}, None, None),
    ],
    ids=[
        "the job's",
        "the point's",
        "the lab's",
        "an axis of the lab's",
        "both given",
        "both alike",
    ],
)
def test_users_and_people_are_as_many(
    tmp_path: Path,
    section: dict[str, Any],
    overrides: tuple[str, ...],
    lab: dict[str, Any],
    users: str | None,
    entries: int | None,
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(_JOB)
    point = Point({}, overrides, job="job.yaml", lab=lab)
    found = with_users(point, path, StudyLab.model_validate(section))
    new = () if users is None else (f'vars.users="{users}"',)
    assert found.overrides == (*new, *overrides)
    assert found.lab.get("entries") == entries


def test_a_job_without_users_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(_JOB.replace("users", "persons"))
    point = Point({}, job="job.yaml")
    assert with_users(point, path, StudyLab(entries=7)) == point
