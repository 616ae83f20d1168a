# SPDX-License-Identifier: Apache-2.0
"""Notifications on their way: real HTTP and SMTP servers, good and bad ones."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path

import pytest

from ldapslam.base.secrets import SecretRef
from ldapslam.coordinator.outputs.deliver import (
    Cutoff,
    DeliveryFailed,
    MailServer,
    parse_allowed,
    post,
    send_mail,
)
from ldapslam.coordinator.outputs.notification import mail, notification
from ldapslam.lab.certificates import Authority
from support import receivers
from support.receivers import Silence, Webhook
from support.store import Scenario, run_record

BODY = b'{"verdict": "FAIL"}'
PASSWORD = "geheim-7"


def send(url: str, **more: object) -> None:
    headers = {"Content-Type": "application/json"}
    post(url, BODY, headers, cutoff=Cutoff(5.0), **more)  # type: ignore[arg-type]


def a_mail() -> EmailMessage:
    return mail(
        notification(run_record(Scenario()), ["p99"]),
        sender="slam@example.com",
        recipient="ops@example.com",
        now_utc=datetime.now(UTC),
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def server_tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("server", timedelta(days=1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate_file, pair.key_file)
    return context


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator with an authority of their own sets."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))


# Webhooks.


def test_a_webhook_gets_the_document_with_path_query_and_password_of_its_url() -> None:
    with Webhook() as webhook:
        send(f"http://ana:pa%40ss@127.0.0.1:{webhook.port}/a/b?c=d")
        [request] = webhook.requests
    assert request.path == "/a/b?c=d"
    assert request.body == BODY
    assert request.headers["Authorization"] == "Basic YW5hOnBhQHNz"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Host"] == f"127.0.0.1:{webhook.port}"


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(200, None), (204, None), (301, True), (404, True), (429, False), (503, False)],
)
def test_the_receivers_answer_decides(status: int, is_final: bool | None) -> None:
    with Webhook(status) as webhook:
        url = f"http://127.0.0.1:{webhook.port}/token-x"
        if is_final is None:
            send(url)
        else:
            with pytest.raises(DeliveryFailed, match=f"answered {status}") as failed:
                send(url)
            assert failed.value.is_final == is_final
            assert "token-x" not in str(failed.value)
        # a redirect least of all is followed
        assert len(webhook.requests) == 1


@pytest.mark.usefixtures("trusted")
def test_https_is_verified_and_the_name_is_that_of_the_url(
    server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Webhook(tls=server_tls) as webhook:
        send(f"https://localhost:{webhook.port}/")
        assert len(webhook.requests) == 1
        look_up = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *rest, **more: look_up("127.0.0.1", *rest, **more),
        )
        with pytest.raises(DeliveryFailed, match="not trusted") as failed:
            send(f"https://hooks.example.com:{webhook.port}/")
        assert failed.value.is_final
        assert len(webhook.requests) == 1


def test_an_unknown_authority_is_not_trusted(server_tls: ssl.SSLContext) -> None:
    with Webhook(tls=server_tls) as webhook:
        with pytest.raises(DeliveryFailed, match="not trusted"):
            send(f"https://localhost:{webhook.port}/")
        assert webhook.requests == []


def test_nobody_there_is_worth_another_attempt() -> None:
    with Webhook() as webhook:
        port = webhook.port
    with pytest.raises(DeliveryFailed, match="refused") as failed:
        send(f"http://127.0.0.1:{port}/")
    assert not failed.value.is_final
    with pytest.raises(DeliveryFailed) as failed:
        send("http://no.such.host.invalid/")
    assert not failed.value.is_final


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
def test_a_submission_reaches_no_loopback_address_unless_allowed(host: str) -> None:
    name = host.strip("[]")
    with Webhook() as webhook:
        url = f"http://{host}:{webhook.port}/"
        with pytest.raises(DeliveryFailed, match="--notify-allow") as failed:
            send(url, permit=parse_allowed(()).permit(name))
        assert failed.value.is_final
        assert webhook.requests == []
        if host == "127.0.0.1":
            send(url, permit=parse_allowed(("127.0.0.0/8",)).permit(name))
            assert len(webhook.requests) == 1


@pytest.mark.parametrize("greeting", [b"", b"H", b"HTTP/1.1 100 \r\n\r\n"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_receiver_that_says_little_or_nothing_is_left_in_time(
    greeting: bytes, scheme: str
) -> None:
    with Silence(greeting) as silence:
        began_s = time.monotonic()
        with pytest.raises(DeliveryFailed):
            post(
                f"{scheme}://127.0.0.1:{silence.port}/",
                BODY,
                {},
                cutoff=Cutoff(0.5),
            )
        assert time.monotonic() - began_s < 5


def test_a_delivery_ends_when_it_is_told_to() -> None:
    with Silence() as silence:
        cutoff = Cutoff(30.0)
        threading.Timer(0.3, cutoff.end).start()
        began_s = time.monotonic()
        with pytest.raises(DeliveryFailed, match="not done"):
            post(f"http://127.0.0.1:{silence.port}/", BODY, {}, cutoff=cutoff)
        assert time.monotonic() - began_s < 5


def test_the_address_that_was_checked_is_the_one_that_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is public when asked first, and loopback when asked again."""
    answers = ["203.0.113.9", "127.0.0.1"]
    asked = []

    def look_up(host: str, port: int, *_: object, **__: object) -> list[object]:
        asked.append(host)
        address = (answers[min(len(asked), 2) - 1], port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    dialled = []

    def dial(address: tuple[str, int], *_: object) -> socket.socket:
        dialled.append(address[0])
        raise TimeoutError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", dial)
    with pytest.raises(DeliveryFailed):
        send("http://rebinding.example.com/", permit=lambda at: at != "127.0.0.1")
    assert (asked, dialled) == (["rebinding.example.com"], ["203.0.113.9"])


# Mail.


@pytest.fixture
def password(tmp_path: Path) -> SecretRef:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return SecretRef(file=str(file))


@pytest.mark.usefixtures("trusted")
def test_a_mail_goes_over_starttls_with_a_login(
    server_tls: ssl.SSLContext, password: SecretRef
) -> None:
    with receivers.MailServer(tls=server_tls, password=PASSWORD) as server:
        own = MailServer(
            *("localhost", server.port, "slam@example.com"),
            user="slam",
            password=password,
        )
        send_mail(own, a_mail(), cutoff=Cutoff(10.0))
        [envelope] = server.mails
    assert envelope.mail_from == "slam@example.com"
    assert envelope.rcpt_tos == ["ops@example.com"]
    assert isinstance(envelope.content, bytes)
    message = message_from_bytes(envelope.content)
    assert message["To"] == "ops@example.com"
    assert PASSWORD.encode() not in envelope.content


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_is_final_and_not_shown(
    server_tls: ssl.SSLContext, password: SecretRef
) -> None:
    with receivers.MailServer(tls=server_tls, password="another") as server:
        own = MailServer(
            *("localhost", server.port, "slam@example.com"),
            user="slam",
            password=password,
        )
        with pytest.raises(DeliveryFailed, match="535") as failed:
            send_mail(own, a_mail(), cutoff=Cutoff(10.0))
        assert failed.value.is_final
        assert PASSWORD not in str(failed.value)
        assert server.mails == []


def test_without_starttls_nothing_is_sent(password: SecretRef) -> None:
    with receivers.MailServer() as server:
        own = MailServer("127.0.0.1", server.port, "slam@example.com")
        with pytest.raises(DeliveryFailed, match="STARTTLS") as failed:
            send_mail(own, a_mail(), cutoff=Cutoff(10.0))
        assert failed.value.is_final
        assert server.mails == []
        plain = MailServer("127.0.0.1", server.port, "slam@example.com", "none")
        send_mail(plain, a_mail(), cutoff=Cutoff(10.0))
        assert len(server.mails) == 1


def test_a_mail_servers_certificate_is_verified(server_tls: ssl.SSLContext) -> None:
    with receivers.MailServer(tls=server_tls) as server:
        own = MailServer("localhost", server.port, "slam@example.com")
        with pytest.raises(DeliveryFailed, match="not trusted"):
            send_mail(own, a_mail(), cutoff=Cutoff(10.0))
        assert server.mails == []


@pytest.mark.parametrize(
    ("reply", "is_final"), [("550 no such user", True), ("451 try later", False)]
)
def test_the_mail_servers_answer_decides(reply: str, is_final: bool) -> None:
    with receivers.MailServer(refusal=reply) as server:
        own = MailServer("127.0.0.1", server.port, "slam@example.com", "none")
        with pytest.raises(DeliveryFailed, match=reply[:3]) as failed:
            send_mail(own, a_mail(), cutoff=Cutoff(10.0))
    assert failed.value.is_final == is_final


@pytest.mark.parametrize("tls", ["none", "starttls", "implicit"])
@pytest.mark.parametrize("greeting", [b"", b"2", b"220-x\r\n"])
def test_a_mail_server_that_never_comes_to_the_point_is_left_in_time(
    tls: str, greeting: bytes
) -> None:
    with Silence(greeting) as silence:
        own = MailServer("127.0.0.1", silence.port, "slam@example.com", tls)  # type: ignore[arg-type]
        began_s = time.monotonic()
        with pytest.raises(DeliveryFailed):
            send_mail(own, a_mail(), cutoff=Cutoff(0.5))
        assert time.monotonic() - began_s < 5


def test_a_missing_password_is_worth_another_attempt(tmp_path: Path) -> None:
    own = MailServer(
        *("127.0.0.1", 1, "slam@example.com"),
        user="slam",
        password=SecretRef(file=str(tmp_path / "nosuch")),
    )
    with pytest.raises(DeliveryFailed, match="password") as failed:
        send_mail(own, a_mail(), cutoff=Cutoff(1.0))
    assert not failed.value.is_final
