# SPDX-License-Identifier: Apache-2.0
"""One job with every operation, control and kind of value, for any directory.

`job_for` writes it, `run_job` runs it; what it adds it removes, and what it modifies it
gives the value that was there before, so that the tree is to be the same afterwards.
People from user.500 on are read and never written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from support.command_line import ldapslam
from support.directory import Directory
from support.workload_operations import (
    PEOPLE_DN,
    binds,
    controls,
    extended_over_tls,
    missing_at_times,
    moves,
    reads,
    restoring_writes,
    search,
    sessions,
    writes,
)

#: What a modify leaves behind of itself, though the values are the old ones.
WRITTEN = ("modifytimestamp", "modifiersname", "entrycsn")
AGENTS = 3
#: A stream has this many operations for each client, so that all end together.
_OPERATIONS_PER_CLIENT = 250

TEMPLATE = """\
define family=Template

template: base
rdnAttr: uid
objectClass: top
objectClass: person
objectClass: organizationalPerson
objectClass: inetOrgPerson

template: person
extends: base
givenName: <first>
sn: [family], \\<b\\>
cn: {givenName} {sn}
uid: template.<guid>
mail: {uid}@example.com
employeeNumber: <random:numeric:5>
telephoneNumber: <random:telephone>
description: one of {cn}'s, <dn>
title: <list:Engineer:3,Manager:1>
l: <presence:40>Berlin
st: <ifpresent:l>BE
departmentNumber: <file:names.txt:sequential>
roomNumber: <sequential:1000>
labeledURI: <base64:hello>
businessCategory: <loop:1:3>
"""


def job_for(directory: Directory, folder: Path, scale: float) -> Path:
    """Writes the job and its files; `scale` 1 is some 20,000 operations."""
    (folder / "names.txt").write_text("".join(f"user.{n}\n" for n in range(1000)))
    (folder / "person.template").write_text(TEMPLATE)
    tls = {"start_tls": True, "ca_file": str(directory.ca_file)}
    found = {"base": PEOPLE_DN, "filter": "(uid=user.[0-999])", "attributes": ["cn"]}
    streams: list[dict[str, Any]] = [
        {"name": "reads", "count": 6_000, "operations": reads()},
        {
            "name": "arrivals",
            "count": 1_200,
            "load": {
                "arrivals": "poisson",
                "connections": 6,
                "stages": [
                    {"rate": "100/s", "for": "1s"},
                    {"ramp_to": "400/s", "for": "2s"},
                    {"ramp_to": "200/s", "for": "2s"},
                ],
            },
            "operations": [{"search": found}],
        },
        {"name": "writes", "count": 3_000, "operations": writes(directory)},
        {
            "name": "templates",
            "count": 300,
            "operations": [
                {
                    "expect": ["success", *missing_at_times(directory)],
                    "add": {
                        "template": "person.template",
                        "template_name": "person",
                        "under": PEOPLE_DN,
                    },
                }
            ],
        },
        {"name": "restoring", "count": 2_000, "operations": restoring_writes()},
        {"name": "binds", "count": 1_500, "operations": binds(directory)},
        {"name": "sessions", "count": 300, "operations": sessions()},
        {
            "name": "extended",
            "count": 600,
            "tls": tls,
            "operations": extended_over_tls(directory),
        },
        {"name": "controls", "count": 1_200, "operations": controls(directory)},
        {
            "name": "abandons",
            "count": 200,
            "operations": [
                {"name": "all", **search("(uid=user.[0-999])", attributes=["1.1"])},
                {"abandon": {"of": "all", "after": "0ms"}},
            ],
        },
        {
            "name": "reconnecting",
            "count": 300,
            "connection": {"reconnect_every": 20},
            "operations": [{"search": found}],
        },
        {
            "name": "one_by_one",
            "count": 150,
            "connection": {"per_operation": True},
            "operations": [{"search": found}],
        },
        {
            "name": "logins",
            "count": 150,
            "type": "auth",
            "options": {**found, "password": "password", "unbind": True},
        },
        {
            "name": "found_and_modified",
            "count": 150,
            "type": "search_modify",
            "options": {
                "base": PEOPLE_DN,
                "filter": "(uid=user.7)",
                "replace": {"description": "This is the description of user.7"},
            },
        },
        {"name": "bursts", "count": 100, "type": "burst", "options": found},
        {
            "name": "primed",
            "type": "prime",
            "options": {"base": PEOPLE_DN, "filter": "(uid=user.[0:999])"},
        },
    ]
    if directory.kind == "slapd":
        streams.append({"name": "moves", "count": 150, "operations": moves()})
    for stream in streams:
        stream["target"] = "server"
        clients = max(AGENTS, stream.get("count", 1000) // _OPERATIONS_PER_CLIENT)
        stream.setdefault("load", {"clients": clients})
        if "count" in stream:
            stream["count"] = round(stream["count"] * scale)
    return _write(directory, folder, streams)


def one_writer_job(directory: Directory, folder: Path) -> Path:
    """Writes a job: one client moves entries and sends controls, another one binds."""
    [move] = moves()
    operations = controls(directory)
    operations.append({"weight": len(operations), **move})
    streams = [
        {
            "name": name,
            "target": "server",
            "count": 100,
            "load": {"clients": 1},
            "operations": sent,
        }
        for name, sent in (("writer", operations), ("binds", binds(directory)))
    ]
    return _write(directory, folder, streams)


def _write(directory: Directory, folder: Path, streams: list[dict[str, Any]]) -> Path:
    job = {
        "name": "workload",
        "targets": {"server": directory.uri},
        "bind": {
            "dn": directory.admin_dn,
            "password": {"file": str(directory.admin_password_file)},
        },
        "run": {"duration": "1h", "interval": "1s", "drain": "30s"},
        "streams": streams,
        "seed": 1,
    }
    path = folder / "workload.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


def run_job(job: Path, timeout_s: float = 120, agents: int = AGENTS) -> dict[str, Any]:
    """Its result.json."""
    ended = ldapslam(
        *("run", job, "--agents", str(agents), "--json"),
        cwd=job.parent,
        timeout_s=timeout_s,
    )
    assert ended.stdout, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result
