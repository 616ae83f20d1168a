# SPDX-License-Identifier: Apache-2.0
"""What of an agent's host a job may use is its operator's to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission.grants import (
    check_grants,
    check_secret_rules,
    check_secrets,
    secrets_of,
)
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.base.errors import ConfigError, NotGranted
from ldapslam.base.secrets import SecretRef
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan

JOB = """\
name: secrets
targets: {{ds: "ldap://127.0.0.1"}}
bind: {bind}
run: {{duration: 1s}}
streams:
  - name: s
    target: ds
    load: {{clients: 1}}
    {stream}
"""
SEARCH = 'operations: [{search: {base: "dc=x"}}]'


def job_of(bind: str = "null", stream: str = SEARCH) -> Job:
    text = JOB.format(bind=bind, stream=stream)
    if bind == "null":
        text = text.replace("bind: null\n", "")
    return load_job_text(text, file="job", base=None)


def bound(secret: str) -> Job:
    return job_of(f'{{dn: "cn=a", password: {{{secret}}}}}')


def refused(job: Job, **limits: Any) -> NotGranted:
    with pytest.raises(NotGranted) as caught:
        check_secrets(job, AgentLimits(**limits), "a1")
    return caught.value


def test_every_secret_of_a_job_is_found() -> None:
    text = JOB.format(
        bind='{dn: "cn=a", password: {env: A}}',
        stream=f"bind: {{sasl: {{mechanism: PLAIN, authcid: u, password: {{env: B}}}}}}"
        f"\n    {SEARCH}",
    )
    text += "monitors:\n  - {directory: ds, bind: {dn: cn=m, password: {file: /c}}}\n"
    found = set(secrets_of(load_job_text(text, file="job", base=None)))
    assert found == {SecretRef(env="A"), SecretRef(env="B"), SecretRef(file="/c")}


def test_a_clients_key_is_a_secret(tmp_path: Path) -> None:
    own = str(tmp_path / "own.pem")
    text = JOB.format(bind="{sasl: {mechanism: EXTERNAL}}", stream=SEARCH)
    text += f"tls: {{start_tls: true, cert_file: /tls/cert.pem, key_file: {own}}}\n"
    job = load_job_text(text, file="job", base=None)
    assert "/tls/cert.pem" in str(refused(job))
    assert own in str(refused(job, secrets=("file:/tls",)))
    allowed = ("file:/tls", f"file:{own}")
    check_secrets(job, AgentLimits(secrets=allowed), "a1")
    assert own in str(refused(job, secrets=("any",), own_files=(own,)))


def test_without_a_rule_no_secret_is_read(tmp_path: Path) -> None:
    for secret in ("env: LDAP_PASSWORD", f"file: {tmp_path}/password"):
        error = refused(bound(secret))
        assert f"agent 'a1' may not read the secret {{{secret}}}" in str(error)
        rule = secret.replace(": ", ":")
        assert f"allow-secret = '{rule}'" in str(error.hint)
    check_secrets(job_of(), AgentLimits(), "a1")


def test_rules_name_variables_files_and_folders(tmp_path: Path) -> None:
    folder, other = tmp_path / "secrets", tmp_path / "secrets2"
    for one in (folder, other):
        one.mkdir()
        (one / "password").write_text("secret")
    (folder / "link").symlink_to(other / "password")
    rules = ("env:A", f"file:{folder}")
    limits = AgentLimits(secrets=rules)
    check_secrets(bound("env: A"), limits, "a1")
    check_secrets(bound(f"file: {folder}/password"), limits, "a1")
    for secret in (
        "env: AB",
        f"file: {other}/password",
        f"file: {folder}/link",
        f"file: {folder}/../secrets2/password",
    ):
        refused(bound(secret), secrets=rules)
    check_secrets(bound(f"file: {folder}/link"), AgentLimits(secrets=("any",)), "a1")


def test_no_rule_gives_the_agents_own_away(tmp_path: Path) -> None:
    key, spool = tmp_path / "tls" / "key.pem", tmp_path / "spool"
    key.parent.mkdir()
    key.write_text("private")
    (tmp_path / "link").symlink_to(key)
    own = (str(key), str(spool))
    for path in (
        key,
        tmp_path / "link",
        spool / "work" / "x",
        "/proc/self/environ",
        "/proc/1/root/etc/shadow",
        "/dev/stdin",
    ):
        for rules in (("any",), (f"file:{path}",)):
            error = refused(bound(f"file: {path}"), secrets=rules, own_files=own)
            assert "no setting allows it" in str(error.hint)


@pytest.mark.parametrize("rule", ["", "env:", "file:x", "file:", "LDAP", "ANY", "any "])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match="is no rule"):
        check_secret_rules(["any", rule])
    rules = ("any", "env:A", "file:/x")
    assert check_secret_rules(rules) == rules


def _python(class_path: str) -> Job:
    return job_of(stream=f'python: {{class: "{class_path}", operations: [x]}}')


@pytest.mark.parametrize(
    ("class_path", "rules", "is_allowed"),
    [
        ("my.jobs:Login", (), False),
        ("my.jobs:Login", ("my.jobs:Login",), True),
        ("my.jobs:Login", ("my.jobs",), True),
        ("my.jobs:Login", ("my",), True),
        ("my.jobs:Login", ("any",), True),
        ("my.jobs:Login", ("my.jobs:Log", "my.job", "y.jobs"), False),
        ("venv.__main__:X", ("my",), False),
        ("ldapslam.configs.jobs.counters:Counters", (), True),
        ("ldapslamx.jobs:X", (), False),
        ("ldapslam.lab.bulk_load.job:BulkLoad", (), True),
    ],
)
def test_a_class_is_named_by_its_operator_or_installed_for_it(
    class_path: str, rules: tuple[str, ...], is_allowed: bool
) -> None:
    job = _python(class_path)
    plan = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    limits = AgentLimits(classes=rules)
    if is_allowed:
        check_grants(job, plan, limits, "a1")
        return
    with pytest.raises(NotGranted, match="may not run the class") as caught:
        check_grants(job, plan, limits, "a1")
    assert f"allow-class = '{class_path}'" in str(caught.value.hint)
