# SPDX-License-Identifier: Apache-2.0
"""Mistakes about a directory, and the remedy that `check` answers each with.

Those that need no server are in tests/unit/cli/test_mistakes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ldapslam.cli import main
from support.fake_ldap import FakeLdap, answer, answer_with
from support.lab import Lab

JOB = """\
name: lookups
targets: {{directory: "{uri}"}}
run: {{duration: 1s}}
streams:
  - name: readers
    target: directory
    load: {{clients: 1}}
    operations:
      - search: {{base: "{base}", filter: "(uid=user.[0-9])"}}
{more}
"""
PEOPLE = "ou=people,dc=example,dc=com"
CLOSED_PORT = "ldap://127.0.0.1:1"
OBSERVED = """\
monitors: [{directory: directory}]
verify: {replication: {within: 5s}}
"""


@pytest.fixture(autouse=True)
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a password that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    path = tmp_path / "wrong"
    path.write_text("wrong\n")
    return path


@pytest.fixture
def checked(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def check(uri: str, more: str = "", base: str = PEOPLE) -> tuple[int, str]:
        Path("job.yaml").write_text(JOB.format(uri=uri, base=base, more=more))
        code = main.run(["check", "job.yaml"])
        return code, capsys.readouterr().err

    return check


def ca(lab: Lab) -> str:
    return f"ca_file: {lab.ca_file}"


def tls_port(lab: Lab) -> str:
    return lab.supplier.ldaps_uri.replace("ldaps:", "ldap:")


def plain_port(lab: Lab) -> str:
    return lab.supplier.uri.replace("ldap:", "ldaps:")


MISTAKES: dict[str, tuple[Callable[[Lab], tuple[str, str]], str]] = {
    "a wrong port": (
        lambda _: (CLOSED_PORT, OBSERVED),
        "does it listen on the port in `targets`",
    ),
    "a name that does not resolve": (
        lambda _: ("ldap://no-such-host.invalid", ""),
        "check the host name",
    ),
    "TLS to a plain port": (
        lambda lab: (plain_port(lab), f"tls: {{{ca(lab)}}}"),
        "ldap:// ports need `tls: {start_tls: true}`",
    ),
    "plain text to a TLS port": (lambda lab: (tls_port(lab), ""), "write ldaps://127"),
    "StartTLS to a TLS port": (
        lambda lab: (tls_port(lab), f"tls: {{start_tls: true, {ca(lab)}}}"),
        "and leave StartTLS out",
    ),
    "an unknown authority": (
        lambda lab: (lab.supplier.ldaps_uri, ""),
        "`tls.ca_file` must hold the authority",
    ),
    "a ca_file that is none": (
        lambda lab: (lab.supplier.ldaps_uri, "tls: {ca_file: wrong}"),
        "`tls.ca_file` must be a PEM file",
    ),
    "a wrong password": (
        lambda lab: (
            lab.supplier.uri,
            f'bind: {{dn: "{lab.admin_dn}", password: {{file: {Path.cwd()}/wrong}}}}',
        ),
        "check `bind.dn` and the password that `bind.password` names",
    ),
    "an unknown DN": (
        lambda lab: (
            lab.supplier.uri,
            'bind: {dn: "cn=nobody,dc=example,dc=com", password: '
            f"{{file: {lab.admin_password_file}}}}}",
        ),
        "servers answer so for an unknown DN too",
    ),
    "a password's file that is missing": (
        lambda lab: (
            lab.supplier.uri,
            f'bind: {{dn: "{lab.admin_dn}", password: {{file: /nowhere}}}}',
        ),
        "the file must be readable by this user, or by the agent",
    ),
    "a variable that is not set": (
        lambda lab: (
            lab.supplier.uri,
            f'bind: {{dn: "{lab.admin_dn}", password: {{env: NOT_SET}}}}',
        ),
        "export NOT_SET in this shell",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_server_that_cannot_be_used(
    name: str, lab: Lab, checked: Callable[..., tuple[int, str]]
) -> None:
    make, remedy = MISTAKES[name]
    code, said = checked(*make(lab))
    assert code in (2, 6)
    assert remedy in said
    assert said.count("hint: ") == 1


@pytest.fixture
def closed_to_anybody() -> Iterator[FakeLdap]:
    """inappropriateAuthentication (48), as slapd's `disallow bind_anon`."""
    with FakeLdap(answer, on_bind=answer_with(48, b"anonymous bind disallowed")) as one:
        yield one


def test_an_anonymous_bind_that_is_refused(
    closed_to_anybody: FakeLdap, checked: Callable[..., tuple[int, str]]
) -> None:
    code, said = checked(closed_to_anybody.uri)
    assert code == 6
    assert "without `bind` in the job it is anonymous" in said


@pytest.mark.parametrize("base", ["dc=exmaple,dc=com", "ou=poeple,dc=example,dc=com"])
def test_a_base_that_is_not_there(
    base: str, lab: Lab, checked: Callable[..., tuple[int, str]]
) -> None:
    code, said = checked(lab.supplier.uri, base=base)
    assert code == 1
    assert "noSuchObject (32): the base is not there" in said
