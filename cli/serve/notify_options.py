# SPDX-License-Identifier: Apache-2.0
"""The coordinator's options about notifications, as one argument of the command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.address import is_local, split_host_port
from ldapslam.base.errors import ConfigError

if TYPE_CHECKING:
    from ldapslam.coordinator.outputs.deliver import MailServer
    from ldapslam.coordinator.outputs.notifier import NotifySettings

_SUBMISSION_PORT = {"starttls": 587, "implicit": 465, "none": 25}

_OPTIONS = (
    click.option(
        "--notify",
        metavar="WHERE",
        multiple=True,
        help="Tell of ended runs: https://… (a webhook), mailto:ADDRESS, or the "
        "reference {env: NAME} or {file: PATH} to one of them; repeatable.",
    ),
    click.option(
        "--notify-allow",
        metavar="HOST|NETWORK",
        multiple=True,
        help="Where webhooks that submissions name may lead to, beside public "
        "addresses; repeatable.",
    ),
    click.option(
        "--notify-link",
        metavar="URL",
        help="Link to give in notifications; {run_id} in it is the run's.",
    ),
    click.option(
        "--smtp",
        metavar="HOST:PORT",
        help="Mail server that takes the mails.",
    ),
    click.option(
        "--smtp-from", metavar="ADDRESS", help="Sender of the mails; with --smtp."
    ),
    click.option(
        "--smtp-tls",
        type=click.Choice(list(_SUBMISSION_PORT)),
        default="starttls",
        show_default=True,
        help="How the connection to the mail server is encrypted.",
    ),
    click.option("--smtp-user", metavar="NAME", help="User at the mail server."),
    click.option(
        "--smtp-password",
        metavar="REFERENCE",
        help="Where its password is: {env: NAME} or {file: PATH}.",
    ),
)


def notify_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as `notify: NotifySettings`."""

    @functools.wraps(command)
    def with_settings(
        *arguments: Any,
        notify: tuple[str, ...],
        notify_allow: tuple[str, ...],
        notify_link: str | None,
        smtp: str | None,
        smtp_from: str | None,
        smtp_tls: str,
        smtp_user: str | None,
        smtp_password: str | None,
        **others: Any,
    ) -> Any:
        server = _mail_server(smtp, smtp_from, smtp_tls, smtp_user, smtp_password)
        settings = _settings(notify, notify_allow, notify_link, server)
        return command(*arguments, notify=settings, **others)

    for option in reversed(_OPTIONS):
        option(with_settings)
    return with_settings


def _settings(
    notify: tuple[str, ...],
    allow: tuple[str, ...],
    link: str | None,
    server: MailServer | None,
) -> NotifySettings:
    from ldapslam.coordinator.destinations import parse_destination
    from ldapslam.coordinator.outputs.deliver import parse_allowed
    from ldapslam.coordinator.outputs.notifier import NotifySettings

    destinations = []
    for number, text in enumerate(notify, 1):
        try:
            found = parse_destination(text)
            # a secret that is missing is better known now than when a run has ended
            place = found.resolved()
        except ConfigError as error:
            # the text may be a secret
            raise ConfigError(
                f"--notify, number {number}: {error}", hint=error.hint
            ) from error
        if place.mail is not None and server is None:
            raise ConfigError(
                f"--notify, number {number}: a mail needs a mail server",
                hint="give --smtp HOST:PORT and --smtp-from ADDRESS",
            )
        destinations.append(found)
    return NotifySettings(tuple(destinations), server, parse_allowed(allow), link)


def _mail_server(
    smtp: str | None,
    sender: str | None,
    tls: str,
    user: str | None,
    password: str | None,
) -> MailServer | None:
    from ldapslam.coordinator.destinations import parse_destination, secret_reference
    from ldapslam.coordinator.outputs.deliver import MailServer

    if smtp is None:
        return None
    host, _ = split_host_port(smtp)
    has_port = smtp.rpartition(":")[2].isdigit() and not smtp.endswith("]")
    port = split_host_port(smtp)[1] if has_port else _SUBMISSION_PORT[tls]
    if not sender:
        raise ConfigError("--smtp needs a sender", hint="give --smtp-from ADDRESS")
    parse_destination(f"mailto:{sender}")
    if (user is None) != (password is None):
        raise ConfigError("--smtp-user and --smtp-password need each other")
    if user is not None and tls == "none" and not is_local(f"{host}:{port}"):
        raise ConfigError(
            "the password of the mail server would be sent in clear",
            hint="use --smtp-tls starttls or implicit",
        )
    secret = None
    if password is not None:
        try:
            secret = secret_reference(password)
            secret.resolve()
        except ConfigError as error:
            raise ConfigError(
                f"--smtp-password: {error}",
                hint="give {env: NAME} or {file: /PATH}, readable where the "
                "coordinator runs",
            ) from error
    return MailServer(host, port, sender, tls, user, secret)  # type: ignore[arg-type]
