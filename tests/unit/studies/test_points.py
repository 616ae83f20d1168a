# SPDX-License-Identifier: Apache-2.0
"""Study files, their points, and the order of their runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, JobErrors
from ldapslam.studies.labs import with_users
from ldapslam.studies.points import Point, check_points, points_of, turns_of
from ldapslam.studies.study_file import Study, StudyLab, load_study

STUDY = """
name: two
job: job.yaml
vars: {users: 2000, secure: true}
axes:
  clients: [5, 50]
  variant:
    variants:
      old: {targets.directory: "ldap://a"}
      new: {targets.directory: "ldap://b", users: 7}
  pause: {field: run.warm_up, values: [1s, 2s]}
"""


#: What the job files have.
VARIABLES = {"job.yaml": ["users", "secure", "clients"], "j.yaml": ["place"]}


def study_of(folder: Path, text: str) -> Study:
    file = folder / "study.yaml"
    file.write_text(text)
    return load_study(file)


def test_points_are_all_combinations_with_what_they_set(tmp_path: Path) -> None:
    points = points_of(study_of(tmp_path, STUDY), VARIABLES)
    assert [one.label for one in points[:3]] == [
        "clients=5 variant=old pause=1s",
        "clients=5 variant=old pause=2s",
        "clients=5 variant=new pause=1s",
    ]
    assert len(points) == 8
    assert points[2].overrides == (
        'vars.users="7"',
        'vars.secure="true"',
        'vars.clients="5"',
        'targets.directory="ldap://b"',
        'run.warm_up="1s"',
    )


def test_combinations_can_be_left_out(tmp_path: Path) -> None:
    left_out = STUDY + "leave_out: [{clients: 50, variant: old}, {pause: 2s}]\n"
    points = points_of(study_of(tmp_path, left_out), VARIABLES)
    assert [one.values["clients"] for one in points] == [5, 5, 50]


def test_agents_and_settings_are_axes(tmp_path: Path) -> None:
    text = """
name: x
job: j.yaml
bind: {dn: cn=admin, password: {env: PASSWORD}}
axes:
  agents: [3, 6]
  cache:
    values: [0, 20000]
    setting: {target: supplier, entry: cn=config, attribute: nsslapd-cachesize}
"""
    first, *_, last = points_of(study_of(tmp_path, text), VARIABLES)
    assert (first.agents, last.agents) == (3, 6)
    (setting, value), *rest = last.settings
    assert (setting.attribute, value, rest) == ("nsslapd-cachesize", "20000", [])
    assert last.overrides == ()


JOBS = """
name: x
jobs: {load: j.yaml, search: {job: job.yaml, vars: {clients: 10}}}
vars: {users: 1000, place: /a}
axes:
  disk: {variants: {a: {place: /b, lab.folder: /b}, b: {}}}
"""


def test_jobs_are_an_axis_and_get_the_variables_that_they_have(tmp_path: Path) -> None:
    points = points_of(study_of(tmp_path, JOBS), VARIABLES)
    assert [(one.label, one.job, one.overrides) for one in points] == [
        ("job=load disk=a", "j.yaml", ('vars.place="/b"',)),
        ("job=load disk=b", "j.yaml", ('vars.place="/a"',)),
        *(
            (label, "job.yaml", ('vars.users="1000"', 'vars.clients="10"'))
            for label in ("job=search disk=a", "job=search disk=b")
        ),
    ]
    assert [one.lab for one in points[:2]] == [{"folder": "/b"}, {}]


def test_variables_that_nobody_has_are_refused(tmp_path: Path) -> None:
    study = study_of(tmp_path, JOBS.replace("vars: {users", "vars: {user: 1, users"))
    with pytest.raises(ConfigError, match="no job of the study has a variable 'user'"):
        points_of(study, VARIABLES)
    assert points_of(study, VARIABLES, used=["user"])


def test_points_that_would_be_the_same_run_are_refused(tmp_path: Path) -> None:
    text = JOBS.replace("place: /b, ", "")
    points = points_of(study_of(tmp_path, text), VARIABLES)
    check_points(points[2:3], in_lab=True)
    with pytest.raises(ConfigError, match="are the same run") as caught:
        check_points(points, in_lab=False)
    assert "give --lab" in str(caught.value.hint)
    check_points(points[:2], in_lab=True)
    # an axis of what only another job has
    text = JOBS.replace("{variants: {a: {place: /b, lab.folder: /b}, b: {}}}", "")
    text = text.replace("  disk:", "  place: [/b, /c]")
    points = points_of(study_of(tmp_path, text), VARIABLES)
    with pytest.raises(ConfigError, match="'job=search place=/b' and 'job=search pl"):
        check_points(points, in_lab=True)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("repeats", "leave_out: [{clients: '5'}]\nrepeats"), "which is no point"),
        (("repeats", "leave_out: [{}]\nrepeats"), "all points are left out"),
        (("clients: [5, 50]", "agents: [few]"), "a number of agents, got 'few'"),
        (("clients: [5, 50]", "agents: [0]"), "a number of agents, got 0"),
    ],
)
def test_what_makes_no_points_is_refused(
    tmp_path: Path, change: tuple[str, str], fault: str
) -> None:
    text = (STUDY + "repeats: 2\n").replace(*change)
    with pytest.raises(ConfigError, match=fault):
        points_of(study_of(tmp_path, text), VARIABLES)


def test_a_lab_changes_the_file_and_the_command_line_changes_that(
    tmp_path: Path,
) -> None:
    file = tmp_path / "study.yaml"
    lab = "lab: {entries: '${users}', changes: {vars.users: 10, axes.clients: [1, 2]}}"
    file.write_text(STUDY + lab)
    assert load_study(file).vars["users"] == 2000
    study = load_study(file, ['vars.users="30"', 'vars.more="x"'], in_lab=True)
    assert study.lab is not None
    assert study.lab.entries == 30
    assert study.vars == {"users": 30, "secure": True, "more": "x"}
    assert study.axes["clients"].values == [1, 2]


@pytest.mark.parametrize("order", ["interleaved", "random", "as_written"])
def test_every_repeat_of_every_point_is_run_once(tmp_path: Path, order: str) -> None:
    study = study_of(tmp_path, STUDY + f"repeats: 3\norder: {order}\n")
    points = points_of(study, VARIABLES)
    turns = turns_of(study, points)
    assert turns == turns_of(study, points)
    assert set(Counter(turns).values()) == {1}
    assert len(turns) == 24
    if order == "interleaved":
        assert [one.repeat for one in turns] == [1] * 8 + [2] * 8 + [3] * 8
        assert [one.point for one in turns[:8]] != [one.point for one in turns[8:16]]
    if order == "as_written":
        assert [one.point for one in turns[:4]] == [0, 0, 0, 1]
    other = study.model_copy(update={"seed": 2})
    assert (turns_of(other, points) == turns) is (order == "as_written")


TABLE = "name: two\ntable: {title: t, columns: {a: x.elapsed}, published: "


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("clients: [5, 50]", "clients: []"), "at least one item"),
        (("repeats", "repeat: 2\nx"), "unknown key 'repeat'"),
        (("values: [1s, 2s]", "variants: {a: {}}"), "field does not go"),
        (("name: two", "name: two\ncompare: variants"), "unknown axis 'variants'"),
        (("name: two", "name: two\nleave_out: [{x: 1}]"), "unknown axis 'x'"),
        (
            ("field: run.warm_up", "setting: {target: a, entry: b, attribute: c}"),
            "nobody is named who may",
        ),
        (("name: two", "name: two\njobs: {a: b.yaml}"), "job"),
        (("name: two", TABLE.replace("elapsed", "y") + "[]}"), "'x.y' does not name"),
        (("name: two", TABLE + "[{b: 1}]}"), "unknown axis or column 'b'"),
        (
            ("name: two", TABLE + "[{clients: 5, variant: old, a: 1}]}"),
            "it has no value of pause",
        ),
        (
            ("name: two", TABLE + "[&r {clients: 5, variant: old, pause: 1s}, *r]}"),
            "the point is there twice",
        ),
    ],
)
def test_faults_of_study_files_are_told(
    tmp_path: Path, change: tuple[str, str], fault: str
) -> None:
    text = (STUDY + "repeats: 2\n").replace(*change)
    with pytest.raises(JobErrors) as caught:
        study_of(tmp_path, text)
    assert fault in "\n".join(map(str, caught.value.faults))


# A lab has as many people as its job has users.


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
