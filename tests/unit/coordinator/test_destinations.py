# SPDX-License-Identifier: Apache-2.0
"""Where notifications may go, as operators and as submitters may name it."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.destinations import (
    MAX_SUBMITTED,
    parse_destination,
    secret_reference,
    shown_url,
    submitted_destinations,
)

SECRET = "T0K3N-geheim"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://hooks.example.com/{SECRET}", "https://hooks.example.com/…"),
        (f"https://u:{SECRET}@h.example.com:8443/", "https://h.example.com:8443"),
        (f"https://[2001:db8::1]:80/?token={SECRET}", "https://[2001:db8::1]:80/…"),
        (f"http://[::1]:80/?token={SECRET}", "http://[::1]:80/…"),
        (f"http://127.0.0.2/{SECRET}", "http://127.0.0.2/…"),
        ("http://LOCALHOST:8080/", "http://localhost:8080"),
        ("mailto:ops@example.com", "mailto:ops@example.com"),
        ("{env: HOOK}", "{env: HOOK}"),
        ("{file: /etc/ldapslam/hook}", "{file: /etc/ldapslam/hook}"),
    ],
)
def test_an_operator_may_name_it_and_no_secret_is_shown(text: str, shown: str) -> None:
    assert str(parse_destination(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://example.com/x",
        "file:///etc/passwd",
        "https:///no-host",
        f"http://hooks.example.com/{SECRET}",
        f"http://u:{SECRET}@10.0.0.1/",
        f"http://[2001:db8::1]/{SECRET}",
        f"http://localhost.example.com/{SECRET}",
        "https://example.com:99999/",
        "https://[::1/",
        f"https://example.com/{SECRET} x",
        f"https://example.com/{SECRET}\r\nX: y",
        "gopher://127.0.0.1",
        "mailto:",
        "mailto:a@b.example, c@d.example",
        "mailto:a@b.example\nBcc: c@d.example",
        "mailto:ops@example.com?subject=x",
        "{env: }",
        "{env: A, file: /x}",
        "{file: relative}",
        "{env: [A]}",
        "{",
        "https://" + "x" * 3000,
    ],
)
@pytest.mark.parametrize("is_submitted", [False, True])
def test_what_is_no_destination_is_refused_without_showing_it(
    text: str, is_submitted: bool
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_destination(text, is_submitted=is_submitted)
    assert refused.value.hint
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "{file: /etc/ldapslam/hook}",
        "{env: HOME}",
        f"https://u:{SECRET}@example.com/",
        f"https://example.com/?token={SECRET}",
        f"https://example.com/#{SECRET}",
    ],
)
def test_what_only_an_operator_may_name_is_refused_in_a_submission(text: str) -> None:
    parse_destination(text)
    with pytest.raises(ConfigError) as refused:
        submitted_destinations([text])
    assert SECRET not in str(refused.value)


def test_a_submission_may_name_urls_mail_addresses_and_variables_made_for_it() -> None:
    texts = [
        "https://hooks.example.com/ci",
        "mailto:ana@example.com",
        "{env: LDAPSLAM_NOTIFY_CI}",
    ]
    found = submitted_destinations(texts)
    assert [str(one) for one in found] == [
        "https://hooks.example.com/…",
        *texts[1:],
    ]
    assert all(one.is_submitted for one in found)


def test_a_submission_may_not_name_very_many() -> None:
    texts = [f"mailto:user{number}@example.com" for number in range(MAX_SUBMITTED + 1)]
    submitted_destinations(texts[1:])
    with pytest.raises(ConfigError, match="may name 8"):
        submitted_destinations(texts)


def test_a_reference_is_resolved_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LDAPSLAM_NOTIFY_CI", f"https://example.com/{SECRET}?a=b")
    found = parse_destination("{env: LDAPSLAM_NOTIFY_CI}", is_submitted=True)
    assert found.resolved().url == f"https://example.com/{SECRET}?a=b"
    file = tmp_path / "hook"
    file.write_text("mailto:ops@example.com\n")
    assert parse_destination(f"{{file: {file}}}").resolved().mail == "ops@example.com"


@pytest.mark.parametrize("value", [None, SECRET, f"http://x/{SECRET}", "\udcff"])
def test_a_reference_to_no_destination_does_not_show_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    with pytest.raises(ConfigError) as refused:
        parse_destination("{env: HOOK}").resolved()
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert "HOOK" in str(refused.value)


def test_a_password_in_place_of_its_reference_is_not_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        secret_reference(SECRET)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_url_that_cannot_be_split_is_not_shown() -> None:
    assert shown_url(f"https://[{SECRET}") == "a URL"
