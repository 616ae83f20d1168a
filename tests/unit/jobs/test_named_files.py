# SPDX-License-Identifier: Apache-2.0
"""The files that a job names are known, wherever they are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.requests.template import FILE_RANDOM


def text_of(operations: list[Any], **stream: Any) -> str:
    return yaml.safe_dump(
        {
            "name": "files",
            "targets": {"directory": "ldap://ds1"},
            "run": {"duration": "10s"},
            "streams": [
                {
                    "name": "load",
                    "target": "directory",
                    "load": {"clients": 1},
                    "operations": operations,
                    **stream,
                }
            ],
        },
        sort_keys=False,
    )


def job_of(operations: list[Any], base: Path | None = None, **stream: Any) -> Job:
    return load_job_text(text_of(operations, **stream), file="job", base=base)


OPERATIONS = [
    {"search": {"base": "dc=com", "filter": "(&(uid=[file:users.txt])(sn=[0-9]))"}},
    {
        "sequence": [
            {
                "name": "find",
                "let": {"user": "[sequentialfile:lists/more.txt]"},
                "search": {"base": "dc=com", "filter": "(uid=[user])"},
                "capture": "dn",
            },
            {"modify": {"dn": "[dn]", "replace": {"sn": ["a", "[dn] [file:sn.txt]"]}}},
        ]
    },
]


def test_files_of_patterns_are_known_without_looking_for_them() -> None:
    job = job_of(OPERATIONS, tls={"ca_file": "ca.pem"})
    assert sorted(job.named_files()) == [
        "ca.pem",
        "lists/more.txt",
        "sn.txt",
        "users.txt",
    ]
    assert job.files == {}


def test_files_of_patterns_are_found_beside_the_job(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("a\n")
    job = job_of(OPERATIONS[:1], tmp_path)
    (stream,) = agent_plan(job, 0, 1, seed=1).streams
    (value,) = (
        value
        for value in stream.operations[0].template.values
        if value.kind == FILE_RANDOM
    )
    assert value.data.decode() == str(tmp_path / "users.txt")


def test_missing_file_of_a_pattern_is_a_fault_where_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobErrors) as caught:
        job_of(OPERATIONS, tmp_path)
    assert {fault.path for fault in caught.value.faults} == {
        "streams[0].operations[0].search.filter",
        "streams[0].operations[1].sequence[0].let.user",
        "streams[0].operations[1].sequence[1].modify.replace.sn[1]",
    }


def test_delivered_bytes_stand_for_files_where_a_job_is_only_read() -> None:
    job = load_job_text(
        text_of(OPERATIONS[:1]), file="job", base=None, files={"users.txt": b"a\n"}
    )
    assert job.named_files() == ("users.txt",)
    assert job.files == {}


def test_file_that_is_no_text_is_a_fault() -> None:
    load = {"stages": {"file": "rates.csv"}}
    with pytest.raises(JobErrors, match="line 2: expected UTF-8, got 0xff"):
        load_job_text(
            text_of(OPERATIONS[:1], load=load),
            file="job",
            base=None,
            files={"rates.csv": b"0,1\n\xff", "users.txt": b""},
        )
