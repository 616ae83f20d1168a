# SPDX-License-Identifier: Apache-2.0
"""One job with every operation, control and kind of value, for any directory.

`job_for` writes it from workload.yaml, `run_job` runs it; what it adds it removes, and
what it modifies it gives the value that was there before, so that the tree is to be the
same afterwards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from ldapslam.lab.people import PEOPLE_DN
from support.command_line import ldapslam
from support.directory import SASL_USER, Directory

#: What a modify leaves behind of itself, though the values are the old ones.
WRITTEN = ("modifytimestamp", "modifiersname", "entrycsn")
#: People from this number on are read and never written.
WRITTEN_PEOPLE = 500
AGENTS = 3
#: A stream has this many operations for each client, so that all end together.
_OPERATIONS_PER_CLIENT = 250
_JOB = Path(__file__).with_name("workload.yaml")
#: Operations that 389-DS does not know; SCRAM needs a password in clear there.
_OF_SLAPD = {
    *("asserted", "matched", "permitted", "there_already", "below", "incremented"),
    "scram",
}

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


def person(number: str) -> str:
    return f"uid=user.{number},{PEOPLE_DN}"


def job_for(directory: Directory, folder: Path, scale: float) -> Path:
    """Write the job and its files; `scale` 1 is some 20,000 operations."""
    (folder / "names.txt").write_text("".join(f"user.{n}\n" for n in range(1000)))
    (folder / "person.template").write_text(TEMPLATE)
    job = _read_job(directory)
    if directory.kind == "389ds":
        job["streams"] = [one for one in job["streams"] if one["name"] != "moves"]
    for stream in job["streams"]:
        clients = max(AGENTS, stream.get("count", 1000) // _OPERATIONS_PER_CLIENT)
        stream.setdefault("load", {"clients": clients})
        if "count" in stream:
            stream["count"] = round(stream["count"] * scale)
    return _write(job, folder)


def one_writer_job(directory: Directory, folder: Path) -> Path:
    """Write a job: a client moves entries and sends controls, a second client binds."""
    job = _read_job(directory)
    streams = {stream["name"]: stream for stream in job["streams"]}
    writer, binds = streams["controls"], streams["binds"]
    [move] = streams["moves"]["operations"]
    move["weight"] = len(writer["operations"])
    writer["operations"].append(move)
    for stream in (writer, binds):
        stream.update(count=100, load={"clients": 1})
    return _write({**job, "streams": [writer, binds]}, folder)


def _read_job(directory: Directory) -> dict[str, Any]:
    """Return workload.yaml with the values and operations of this server.

    389-DS 2.3.1 now and then answers noSuchObject to writes of entries that are there,
    when a second write is about to replace the same parent in its cache. For the same
    reason it dies of a move to another parent (SIGSEGV in ldbm_back_modrdn), so that
    its moves have a job with one client that writes: `one_writer_job`.
    """
    is_slapd = directory.kind == "slapd"
    words = {
        "URI": directory.uri,
        "ADMIN_DN": json.dumps(directory.admin_dn),
        "PASSWORD_FILE": str(directory.admin_password_file),
        "CA_FILE": str(directory.ca_file),
        "MISSING": "" if is_slapd else ", noSuchObject",
        # slapd's schema names no rule for these, 389-DS does not know the rule's name
        "RULE": ":caseIgnoreOrderingMatch" if is_slapd else "",
        # 389-DS takes PLAIN by DN
        "SASL_USER": SASL_USER if is_slapd else f"dn:{person('[0-999]')}",
    }
    text = _JOB.read_text()
    for word, value in words.items():
        text = text.replace(word, value)
    job: dict[str, Any] = yaml.safe_load(text)
    for stream in job["streams"]:
        stream["target"] = "server"
        if not is_slapd and "operations" in stream:
            stream["operations"] = [
                operation
                for operation in stream["operations"]
                if operation.get("name") not in _OF_SLAPD
            ]
    return job


def _write(job: dict[str, Any], folder: Path) -> Path:
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
