# SPDX-License-Identifier: Apache-2.0
"""Where certificates come from, and what is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click
import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli.main import run
from ldapslam.cli.security import (
    Security,
    current_security,
    folder_files,
    operator_files,
)
from ldapslam.cli.serve.server_security import AgentIdentity, agent_identity
from ldapslam.transport.credentials import TlsFiles
from ldapslam.transport.enrolment import identity_files
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role

#: An address of nobody's (RFC 5737): what is refused is refused before it is dialled.
FAR = "192.0.2.1:7400"
LOOPBACK = "127.0.0.1:7400"

Outcome = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings."""
    monkeypatch.delenv("LDAPSLAM_TLS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LDAPSLAM_PKI", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def authority(home: Path) -> Authority:
    made = Authority.create(home / "pki", "fleet")
    made.issue("coordinator", Role.COORDINATOR, ["192.0.2.1"])
    for name, role in (("olga", Role.OPERATOR), ("victor", Role.VIEWER)):
        made.issue(name, role)
    made.issue("a1", Role.AGENT)
    return made


@pytest.fixture
def outcome(capsys: pytest.CaptureFixture[str]) -> Outcome:
    def call(*arguments: str | Path) -> tuple[int, str]:
        code = run([str(argument) for argument in arguments])
        return code, capsys.readouterr().err

    return call


@pytest.fixture
def told(home: Path) -> None:
    """The user's own certificate is in the default folder."""
    folder = home / "config" / "ldapslam"
    folder.mkdir(parents=True)
    (folder / "tls").symlink_to(home / "pki" / "issued" / "olga")


ASK = ("fleet", "agents", "--coordinator")
DIAL = ("agent", "--spool", "spool", "--coordinator", FAR)
LISTEN = ("coordinator", "--store", "x.sqlite", "--listen", "192.0.2.1:0")
REFUSED = [
    ((*ASK, FAR), "neither encrypted nor authenticated"),
    (DIAL, "neither encrypted nor authenticated"),
    (LISTEN, "neither encrypted nor authenticated"),
    ((*LISTEN, "--pki", "missing"), "no certificate authority"),
    ((*LISTEN, "--pki", "pki", "--insecure"), "--insecure asks for plain text"),
    ((*LISTEN, "--tls", "pki/issued/olga"), "a coordinator needs one of its own"),
    ((*LISTEN, "--enrol-listen", "192.0.2.1:0"), "needs --pki"),
    ((*LISTEN, "--tls-crl", "pki/crl.pem"), "needs --tls"),
    ((*LISTEN, "--pki", "pki", "--tls-crl", "pki/crl.pem"), "leave out --tls-crl"),
    ((*DIAL, "--tls", "pki/issued/victor"), "this needs one of role agent"),
    ((*DIAL, "--tls", "pki/issued/a1", "--insecure"), "asks for plain text"),
    ((*DIAL, "--tls", "pki/issued/a1", "--name", "a2"), "certificate is that of 'a1'"),
    ((*DIAL, "--tls", "missing"), "cannot be read"),
    ((*DIAL, "--join", "missing"), "cannot be read"),
    ((*DIAL, "--join", "pki/ca.pem"), "is no join token"),
    ((*ASK, FAR, "--tls", "pki/issued/a1"), "is the certificate of agent 'a1', this"),
    ((*ASK, LOOPBACK, "--tls", "pki/issued/a1"), "one of role operator or viewer"),
    ((*ASK, FAR, "--tls", "pki/issued/olga", "--insecure"), "asks for plain text"),
]


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(("arguments", "what"), REFUSED)
def test_what_cannot_be_right_is_refused_before_anything_is_sent(
    outcome: Outcome, arguments: tuple[str, ...], what: str
) -> None:
    code, err = outcome(*arguments)
    assert (code, what in err) == (2, True), err


def test_an_authority_with_several_coordinators_asks_which(
    authority: Authority, outcome: Outcome
) -> None:
    authority.issue("second", Role.COORDINATOR, ["192.0.2.1"])
    code, err = outcome(*LISTEN, "--pki", "pki")
    assert code == 2
    assert "found those of coordinator, second" in err
    authority.revoke("second")
    authority.revoke("coordinator")
    code, err = outcome(*LISTEN, "--pki", "pki")
    assert code == 2
    assert "found none" in err


@pytest.mark.usefixtures("authority")
def test_the_variable_comes_before_the_default_folder(
    home: Path, told: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = current_security()
    assert found.is_default
    assert found.files == folder_files(home / "config" / "ldapslam" / "tls")
    theirs = home / "pki" / "issued" / "victor"
    monkeypatch.setenv("LDAPSLAM_TLS", str(theirs))
    found = current_security()
    assert (found.is_default, found.files) == (False, folder_files(theirs))


@pytest.mark.usefixtures("authority", "told")
def test_with_certificates_loopback_has_them_too_and_a_unix_socket_never() -> None:
    assert operator_files(LOOPBACK) is not None
    assert operator_files(FAR) is not None
    assert operator_files("unix:/tmp/coordinator") is None


def test_insecure_gives_up_the_default_folder_but_nothing_that_was_named() -> None:
    files = TlsFiles(Path("c"), Path("k"), Path("a"))
    assert Security(files, is_default=True, insecure=True).files_for(FAR) is None
    with pytest.raises(ConfigError, match="asks for plain text"):
        Security(files, insecure=True).files_for(LOOPBACK)
    assert Security(insecure=True).files_for(FAR) is None
    assert Security().files_for(LOOPBACK) is None


def place(
    coordinator: str = FAR,
    name: str | None = None,
    spool: Path | None = None,
    join: Path | None = None,
    security: Security | None = None,
) -> AgentIdentity:
    command = click.Command("agent")
    with click.Context(command) as context:
        context.meta["ldapslam.security"] = security or Security()
        return agent_identity(coordinator, name, "host7", spool, Path("spools"), join)


def test_an_agent_has_the_name_of_its_certificate_or_its_host(
    authority: Authority,
) -> None:
    issued = folder_files(authority.bundle("a1"))
    found = place(security=Security(issued))
    assert (found.name, found.spool) == ("a1", Path("spools/a1"))
    assert (found.files, found.has_joined) == (issued, False)
    found = place(LOOPBACK)
    assert (found.name, found.spool, found.files) == (
        "host7",
        Path("spools/host7"),
        None,
    )
    found = place("unix:/run/c", name="local-1", security=Security(issued))
    assert (found.name, found.files) == ("local-1", None)


def test_a_token_names_the_agent_and_what_it_got_is_found_again(
    authority: Authority, home: Path
) -> None:
    token = home / "a2.join"
    hour = timedelta(hours=1)
    token.write_text(authority.token("a2", Role.AGENT, hour).text())
    found = place(join=token)
    assert (found.name, found.spool) == ("a2", Path("spools/a2"))
    assert found.files == identity_files(Path("spools/a2"))
    assert found.has_joined
    with pytest.raises(ConfigError, match="the join token is for 'a2'"):
        place(join=token, name="a3")
    with pytest.raises(ConfigError, match="neither --tls nor --insecure"):
        place(join=token, security=Security(insecure=True))
    # as if it had joined
    files = identity_files(home / "mine")
    files.key.parent.mkdir()
    for path, source in (
        (files.certificate, "cert.pem"),
        (files.key, "key.pem"),
        (files.authority, "ca.pem"),
    ):
        path.write_bytes((authority.bundle("a1") / source).read_bytes())
    found = place(name="a1", spool=home / "mine")
    assert (found.files, found.has_joined) == (files, True)
    # and nobody says plain text by mistake
    with pytest.raises(ConfigError, match="asks for plain text"):
        place(name="a1", spool=home / "mine", security=Security(insecure=True))


def test_pki_from_the_first_command_to_the_last(
    home: Path, outcome: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    def pki(*arguments: str, code: int = 0) -> str:
        found = run(["fleet", "pki", arguments[0], "--pki", "fleet", *arguments[1:]])
        printed = capsys.readouterr()
        assert found == code, printed.err
        return printed.out if code == 0 else printed.err

    assert "make one: ldapslam fleet pki init" in pki("list", code=2)
    pki("init")
    assert "authority already" in pki("init", code=2)
    issue = ("issue", "--role", "agent", "--name", "a1")
    folder = Path(pki(*issue).strip())
    assert {path.name for path in folder.iterdir()} == {"cert.pem", "key.pem", "ca.pem"}
    assert pki("issue", "--name", "a1").strip() == str(folder)
    operator = ("issue", "--role", "operator", "--name", "a1")
    assert "or revoke it first: ldapslam fleet pki revoke a1" in pki(*operator, code=2)
    assert "'a9' has no certificate yet" in pki("issue", "--name", "a9", code=2)
    token = ("token", "--name", "a1")
    assert "fleet pki issue --name a1 renews it; or revoke it" in pki(*token, code=2)
    listed = pki("list")
    assert listed.count("valid, 364 days left") == 2
    pki("token", "--name", "a2", "--out", "a2.join")
    assert (home / "a2.join").stat().st_mode & 0o777 == 0o600
    assert "is there already" in pki(
        "token", "--name", "a3", "--out", "a2.join", code=2
    )
    assert pki("token", "--name", "a3", "--expires", "5m").startswith("ldapslam-join-1")
    assert "--expires" in pki("token", "--name", "a4", "--expires", "5", code=2)
    pki("revoke", "a1")
    assert "no valid certificate" in pki("revoke", "a1", code=2)
    assert pki("list").count("revoked") == 2
    assert '"state": "revoked"' in pki("list", "--json")
