# SPDX-License-Identifier: Apache-2.0
"""`check` reports faults that a run would meet, and results of sample requests."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.base.errors import ExitCode
from support.command_line import check_ldapslam, ldapslam
from support.lab import Lab
from support.labs import TRIO_ENTRIES, ds389_trio_is_long
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


# Sample requests of each operation, and their results.


PEOPLE = f"ou=people,{SUFFIX}"
SAMPLES = 20
BEYOND = f"[{TRIO_ENTRIES}-{2 * TRIO_ENTRIES}]"
SAMPLED = """\
name: sampled
targets: {{supplier: "{supplier}", replica: {replicas}}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: 60s}}
streams:
  - name: load
    target: {target}
    load: {{clients: 1}}
    operations:
"""


@pytest.fixture
def person_password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("password")
    path.chmod(0o600)
    return path


def check(
    lab: Lab,
    folder: Path,
    operations: str,
    *options: str,
    target: str = "supplier",
    ends: ExitCode = ExitCode.PASS,
    **identity: str | Path,
) -> tuple[dict[str, Any], list[str]]:
    """The document, and the warnings but for those on this machine's load."""
    head = lab.job(SAMPLED, target=target, **identity)
    lines = (f"      {line}" for line in operations.strip().splitlines())
    job = folder / "sampled.yaml"
    job.write_text(head + "\n".join(lines) + "\n")
    ended = ldapslam("check", job, "--samples", str(SAMPLES), "--json", *options)
    assert ended.returncode == ends, ended.stderr
    document = json.loads(ended.stdout)
    told = [f"warning: {text}" for text in document["warnings"]]
    assert ended.stderr.splitlines() == told
    warnings = (one for one in document["warnings"] if "the median of" not in one)
    return document, list(warnings)


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operation"]: one for one in document["samples"]}


def everything(lab: Lab) -> dict[str, Any]:
    """The supplier's entries, and when each was changed last."""
    asked = ["*", "modifyTimestamp", "entryCSN", "createTimestamp"]
    with supplier_of(lab) as connection:
        return dict(connection.search_s(SUFFIX, ldap.SCOPE_SUBTREE, attrlist=asked))


@ds389_trio_is_long
def test_what_searches_find_is_told(trio: Lab, tmp_path: Path) -> None:
    document, warnings = check(
        trio,
        tmp_path,
        f"""\
- search: {{base: "{PEOPLE}", filter: "(uid=user.[0-{TRIO_ENTRIES - 1}])"}}
- search: {{base: "{PEOPLE}", filter: "(uid=user.{BEYOND})"}}
  name: beyond
- search: {{base: "ou=nowhere,{SUFFIX}", scope: base}}
  name: nowhere
- search: {{base: "{PEOPLE}", size_limit: 2}}
  name: limited
- {{name: odd, search: {{base: "{PEOPLE}", scope: base}}, controls: [{{oid: 1.2.3}}]}}
- sequence:
    - {{name: found, search: {{base: "{PEOPLE}", filter: "(uid=user.7)"}}, capture: dn}}
    - compare: {{dn: "[dn]", attribute: uid, value: user.7}}
""",
        target="replica",
        ends=ExitCode.FAIL,  # nothing of `nowhere` succeeds
    )
    met: Counter[str] = Counter()
    for one in document["samples"]:
        assert one["sent"] == SAMPLES
        assert not one["rehearsal"]
        assert one["service_time_us"]["p50"] > 0
        met[one["operation"]] += 1
    assert set(met.values()) == {len(trio.replicas)}
    found = by_name(document)
    assert found["search"]["entries"] == SAMPLES
    assert found["search"]["result_codes"] == {"0": SAMPLES}
    assert (found["beyond"]["entries"], found["beyond"]["empty"]) == (0, SAMPLES)
    assert found["nowhere"]["result_codes"] == {"32": SAMPLES}
    assert found["limited"]["result_codes"] == {"4": SAMPLES}
    assert found["limited"]["entries"] == 2 * SAMPLES
    assert found["compare"]["result_codes"] == {"6": SAMPLES}
    both = 2 * SAMPLES
    # 389-DS says nothing with this code
    said = "critical extension is not recognized" if trio.kind == "slapd" else ""
    assert found["odd"]["diagnostic_messages"] == ({"12": said} if said else {})
    assert found["search"]["diagnostic_messages"] == {}
    beyond, nowhere, limited, odd = warnings
    assert "unavailableCriticalExtension (12)" in odd
    assert (f' ("{said}"): ' in odd) is bool(said)
    assert f"load.beyond: {both} of {both} searches found nothing:" in beyond
    assert f"load.nowhere: {both} of {both} requests ended with noSuch" in nowhere
    assert "the base is not there" in nowhere
    assert "sizeLimitExceeded (4)" in limited


WRITES = f"""\
- add:
    dn: "cn=new.[unique],{PEOPLE}"
    entry: {{objectClass: device}}
- modify: {{dn: "uid=user.[0-9],{PEOPLE}", replace: {{description: "[random:8]"}}}}
- modify: {{dn: "uid=user.{BEYOND},{PEOPLE}", replace: {{description: a}}}}
  name: beyond
- modify_dn: {{dn: "uid=user.[0-9],{PEOPLE}", new_rdn: "uid=other.[unique]"}}
- sequence:
    - {{name: found, search: {{base: "{PEOPLE}", filter: "(uid=user.7)"}}, capture: dn}}
    - {{name: remove, delete: {{dn: "[dn]"}}}}
    - {{name: after, compare: {{dn: "[dn]", attribute: uid, value: user.7}}}}
- delete: {{of: add}}
"""


@ds389_trio_is_long
def test_writes_are_rehearsed_and_change_nothing(trio: Lab, tmp_path: Path) -> None:
    before = everything(trio)
    document, (warning,) = check(
        trio,
        tmp_path,
        WRITES,
        ends=ExitCode.FAIL,  # all of `beyond` are refused
    )
    assert everything(trio) == before
    found = by_name(document)
    for name in ("add", "modify", "modify_dn", "remove"):
        assert found[name]["rehearsal"]
        assert found[name]["result_codes"] == {"16": SAMPLES}, name
    assert found["found"]["entries"] == SAMPLES
    assert found["beyond"]["result_codes"] == {"32": SAMPLES}
    assert f"load.beyond: {SAMPLES} of {SAMPLES} requests ended with noSuch" in warning
    assert "the entry is not there" in warning
    assert found["delete"]["untried"] == "its entries are those that the run adds"
    assert found["after"]["untried"] == "it follows what was not done"


def test_the_first_bind_that_is_refused_is_the_last_of_its_kind(
    trio: Lab, tmp_path: Path
) -> None:
    """Whatever the job expects: servers count wrong passwords."""
    document, (warning,) = check(
        trio,
        tmp_path,
        f"""\
- bind: {{dn: "uid=user.[0-9],{PEOPLE}", password: password}}
- bind: {{dn: "uid=user.11,{PEOPLE}", password: wrong}}
  name: wrong
- bind: {{dn: "uid=user.12,{PEOPLE}", password: wrong}}
  name: meant
  expect: [invalidCredentials]
""",
        target="replica",
        ends=ExitCode.FAIL,  # nothing of `wrong` succeeds
    )
    codes: dict[str, Counter[str]] = defaultdict(Counter)
    for one in document["samples"]:
        codes[one["operation"]].update(one["result_codes"])
    assert codes == {
        "bind": {"0": SAMPLES * len(trio.replicas)},
        "wrong": {"49": 1},
        "meant": {"49": 1},
    }
    assert "no more of these binds were tried, as servers lock accounts" in warning


CONFIGURATION = """\
- modify: {dn: cn=config, replace: {nsslapd-localhost: a}}
- modify: {dn: "[dn]", replace: {nsslapd-localhost: a}}
  name: drawn
  let: {dn: cn=config}
- delete: {dn: "cn=[0-9],cn=tasks,cn=config"}
"""


def test_the_configuration_of_a_server_stays(ds389_trio: Lab, tmp_path: Path) -> None:
    def configuration() -> Any:
        with supplier_of(ds389_trio) as connection:
            return connection.search_s("cn=config", ldap.SCOPE_BASE)

    before = configuration()
    document, _ = check(ds389_trio, tmp_path, CONFIGURATION)
    assert configuration() == before
    found = by_name(document)
    for name in ("modify", "delete"):
        assert "the server's own" in found[name]["untried"]


@ds389_trio_is_long
def test_a_replica_that_takes_no_writes_is_told(trio: Lab, tmp_path: Path) -> None:
    document, warnings = check(
        trio, tmp_path, WRITES, target="replica", ends=ExitCode.FAIL
    )
    found = by_name(document)
    for name in ("add", "modify", "modify_dn", "remove"):
        assert found[name]["result_codes"] == {"10": SAMPLES}, name
    assert all("writes go to a supplier" in one for one in warnings)
    assert len(warnings) >= 4


@ds389_trio_is_long
def test_rights_that_the_identity_does_not_have_are_told(
    trio: Lab, tmp_path: Path, person_password: Path
) -> None:
    before = everything(trio)
    person = f"uid=user.1,{PEOPLE}"
    operations = f"""\
- modify: {{dn: "uid=user.2,{PEOPLE}", replace: {{sn: a}}}}
- delete: {{dn: "uid=user.2,{PEOPLE}"}}
"""
    document, (modify, delete) = check(
        trio,
        tmp_path,
        operations,
        dn=person,
        password_file=person_password,
        ends=ExitCode.FAIL,
    )
    assert everything(trio) == before
    assert any(f", as {person}; " in line for line in document["plan"])
    assert "load.modify: " in modify
    assert "insufficientAccessRights (50)" in modify
    assert f"{person} may not do that" in modify
    assert f"{person} may not modify them, so perhaps not delete either" in delete


def test_what_a_person_reads_has_a_table_for_each_stream(
    slapd_trio: Lab, tmp_path: Path
) -> None:
    check(slapd_trio, tmp_path, f'- search: {{base: "{PEOPLE}", scope: base}}')
    job = tmp_path / "sampled.yaml"
    ended = check_ldapslam("check", job)
    assert f", as {slapd_trio.admin_dn}; closed loop, 1 clients" in ended.stdout
    assert "Samples of load\n" in ended.stdout
    assert "10 success" in ended.stdout
    assert "Samples" not in ldapslam("check", job, "--samples", "0").stdout
    assert "Samples" not in ldapslam("check", job, "--offline").stdout
