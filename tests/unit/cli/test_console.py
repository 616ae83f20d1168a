# SPDX-License-Identifier: Apache-2.0
"""How results, errors and times read."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import ConfigError, JobError, JobErrors
from ldapslam.base.log_format import without_passwords
from ldapslam.cli.console import complain, us_text
from ldapslam.cli.options import FORMATS, parse_formats
from ldapslam.reports.formats.render import FILES


@pytest.mark.parametrize(
    ("value_us", "text"),
    [
        (None, "–"),
        (0.4, "0.0004 ms"),
        (999.4, "0.999 ms"),
        (1_500, "1.5 ms"),
        (999_999, "1,000 ms"),
        (2_340_000, "2,340 ms"),
    ],
)
def test_a_time_is_shown_as_in_reports(value_us: float | None, text: str) -> None:
    assert us_text(value_us) == text


def test_each_fault_of_a_job_has_its_own_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = JobError("is wrong", file="j.yaml", line=1, column=2, path="a", hint="b")
    second = JobError("is missing", file="j.yaml", line=3, column=1)
    complain(JobErrors([first, second]))
    assert capsys.readouterr().err == (
        "j.yaml:1:2: a: is wrong\nhint: b\nj.yaml:3:1: is missing\n2 faults\n"
    )


def test_the_formats_are_those_that_reports_can_render() -> None:
    assert tuple(FILES) == FORMATS


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (None, FORMATS),
        ("all", FORMATS),
        ("pdf", ("pdf",)),
        ("html, json", ("html", "json")),
    ],
)
def test_formats_are_separated_by_commas(
    given: str | None, parsed: tuple[str, ...]
) -> None:
    assert parse_formats(None, None, given) == parsed


@pytest.mark.parametrize("given", ["", ",", "html,docx"])
def test_an_unknown_format_is_a_usage_error_that_names_the_known(given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_formats(None, None, given)
    assert "hlog" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:hunter2@db/x", "postgresql://u:***@db/x"),
        (
            "--store=postgresql+psycopg://u:a/b:c@d/x",
            "--store=postgresql+psycopg://u:***@d/x",
        ),
        ("postgresql://u:not@escaped@db/x", "postgresql://u:***@db/x"),
        (
            "postgresql://u@db/x?password=p&sslmode=require",
            "postgresql://u@db/x?password=***&sslmode=require",
        ),
        ("bind.password=literal", "bind.password=***"),
        ("bind.password={file: secret}", "bind.password={file: secret}"),
        ("postgresql://u@db:5432/x", "postgresql://u@db:5432/x"),
        ("ldap://host:389", "ldap://host:389"),
        ("results.sqlite", "results.sqlite"),
    ],
)
def test_a_password_in_an_argument_is_masked(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
