# SPDX-License-Identifier: Apache-2.0
"""`check` tells before a run what its observers and probes will fail at."""

from __future__ import annotations

import json
from pathlib import Path

import ldap

from ldapslam.base.errors import ExitCode
from support.command_line import check_ldapslam, ldapslam
from support.lab import Lab
from support.labs import ds389_trio_is_long
from support.replication import silent, supplier_of

SUFFIX = "dc=example,dc=com"
JOB = """\
name: checked
targets: {{supplier: "{supplier}", replica: {replicas}}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: 2s}}
monitors: {monitors}
{verify}
streams:
  - name: probe
    target: supplier
    type: replication_probe
    options: {{replicas: replica, dn: "{probe}"}}
"""


def job_file(
    lab: Lab,
    folder: Path,
    *,
    monitors: str = "[{directory: supplier}]",
    verify: str = "verify: {replication: {within: 5s}}",
    probe: str = f"cn=probe,{SUFFIX}",
    **servers: str,
) -> Path:
    job = folder / "checked.yaml"
    job.write_text(
        lab.job(JOB, monitors=monitors, verify=verify, probe=probe, **servers)
    )
    return job


@ds389_trio_is_long
def test_what_a_run_will_see_is_told(trio: Lab, tmp_path: Path) -> None:
    log = tmp_path / "errors"
    log.write_text("neither\nnor\n")
    monitors = f"[{{directory: supplier}}, {{log: {log}, format: 389ds}}]"
    ended = check_ldapslam(
        "check", job_file(trio, tmp_path, monitors=monitors), "--json"
    )
    assert f"log {log}" in ended.stderr
    assert "of its last 2 lines none is an operation" in ended.stderr
    found = json.loads(ended.stdout)
    method = {
        "slapd": "content_synchronization",
        "389ds": "persistent_search",
    }[trio.kind]
    assert found["probes"] == [
        {"stream": "probe", "uri": one.uri, "method": method} for one in trio.replicas
    ]
    (tree,) = found["verify"]["trees"]
    assert (tree["suffix"], tree["converged"], tree["behind"]) == (SUFFIX, True, {})
    server, written = found["monitors"]
    assert server["name"] == f"supplier {trio.supplier.uri}"
    assert server["figures"] > 10
    assert written["figures_missing"] == []
    # nothing was written
    with supplier_of(trio) as connection:
        assert not connection.search_s(SUFFIX, ldap.SCOPE_ONELEVEL, "(cn=probe)")


def test_all_that_a_run_will_fail_at_is_told_at_once(
    slapd_trio: Lab, tmp_path: Path
) -> None:
    first, second = slapd_trio.replicas
    job = job_file(
        slapd_trio,
        tmp_path,
        monitors="[{log: /nowhere/slapd.log, format: openldap, target: supplier}, "
        f"{{entry: 'cn=nobody,{SUFFIX}', target: supplier, attributes: [sn]}}]",
        verify=f"verify: {{replication: {{within: 5s, base: 'ou=no,{SUFFIX}'}}}}",
    )
    with silent(slapd_trio, first):
        ended = ldapslam("check", job)
    assert ended.returncode == ExitCode.TARGET, ended.stderr
    lines = ended.stderr
    assert "the log '/nowhere/slapd.log' cannot be read: No such file" in lines
    assert "says nothing of what is monitored" in lines
    assert f"{first.uri} does not tell of changes" in lines
    assert f"{second.uri} has no 'ou=no,{SUFFIX}', or does not let it be read" in lines
    assert f"{second.uri}: tells by content synchronization" in ended.stdout


def test_a_probe_that_cannot_write_is_told(slapd_trio: Lab, tmp_path: Path) -> None:
    replica, others = slapd_trio.replicas[0], f"[{slapd_trio.supplier.uri}]"
    job = job_file(slapd_trio, tmp_path, supplier=replica.uri, replicas=others)
    ended = ldapslam("check", job)
    assert ended.returncode == ExitCode.TARGET, ended.stderr
    assert f"target '{replica.uri}' does not let 'cn=probe,{SUFFIX}' be added: " in (
        ended.stderr
    )
    assert "hint: it takes no writes: the probe's target is the supplier" in (
        ended.stderr
    )
    job = job_file(slapd_trio, tmp_path, probe=f"cn=probe,ou=no,{SUFFIX}")
    assert f"has no 'ou=no,{SUFFIX}', below which" in ldapslam("check", job).stderr
    # an entry that is there, by an identity that may not write it
    entry = f"cn=kept,{SUFFIX}"
    with supplier_of(slapd_trio) as connection:
        connection.add_s(entry, [("objectClass", [b"device"]), ("cn", [b"kept"])])
    slapd_trio.wait_in_sync(20)
    password = tmp_path / "password"
    password.write_text("password")
    password.chmod(0o600)
    person = f"uid=user.1,ou=people,{SUFFIX}"
    job = job_file(slapd_trio, tmp_path, probe=entry)
    arguments: list[str | Path] = [job, "--set", f"bind.dn={person}"]
    arguments += ["--set", f"bind.password.file={password}"]
    try:
        for command in ("check", "run"):
            ended = ldapslam(command, *arguments, cwd=tmp_path)
            assert ended.returncode == ExitCode.TARGET, ended.stderr
            refused = f"does not let description of '{entry}' be written"
            assert refused in ended.stderr
    finally:
        with supplier_of(slapd_trio) as connection:
            connection.delete_s(entry)
