# SPDX-License-Identifier: Apache-2.0
"""Result codes by name and number, which of them are no errors, and what to do."""

from __future__ import annotations

from typing import Any

import ldap
import pytest
from pydantic import TypeAdapter, ValidationError

from ldapslam.jobs.fields.remedies import empty_remedy, remedy_of
from ldapslam.jobs.fields.result_codes import (
    NAMES,
    ResultCode,
    code_name,
    code_title,
    outcome_codes,
)

CODES: TypeAdapter[int] = TypeAdapter(ResultCode)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        *((code, code) for code in (*NAMES, 9999)),
        ("success", 0),
        ("noSuchObject", 32),
        ("e-syncRefreshRequired", 4096),
    ],
)
def test_code_is_known_by_name_and_number(given: Any, code: int) -> None:
    assert CODES.validate_python(given) == code
    assert CODES.validate_python(CODES.dump_python(code)) == code


@pytest.mark.parametrize("given", ["nosuchobject", -1, True, None])
def test_what_is_no_code_is_a_fault(given: Any) -> None:
    with pytest.raises(ValidationError, match="expected a result code, got "):
        CODES.validate_python(given)


def test_names_are_those_that_libldap_knows() -> None:
    """python-ldap has the codes as names in capitals; some by older names."""
    older = {
        "ALIAS_DEREF_PROBLEM": "aliasDereferencingProblem",
        "ALREADY_EXISTS": "entryAlreadyExists",
        "INAPPROPRIATE_AUTH": "inappropriateAuthentication",
        "INSUFFICIENT_ACCESS": "insufficientAccessRights",
        "INVALID_SYNTAX": "invalidAttributeSyntax",
        "NO_OBJECT_CLASS_MODS": "objectClassModsProhibited",
        "NOT_ALLOWED_ON_NONLEAF": "notAllowedOnNonLeaf",
        "STRONG_AUTH_NOT_SUPPORTED": "authMethodNotSupported",
        "STRONG_AUTH_REQUIRED": "strongerAuthRequired",
        "TYPE_OR_VALUE_EXISTS": "attributeOrValueExists",
        "UNDEFINED_TYPE": "undefinedAttributeType",
        "VLV_ERROR": "virtualListViewError",
        "PROXIED_AUTHORIZATION_DENIED": "authorizationDenied",
        "CANCELLED": "canceled",
    }
    checked = 0
    for name in dir(ldap):
        error = getattr(ldap, name)
        number = vars(error).get("errnum") if isinstance(error, type) else None
        if number not in NAMES:
            continue
        theirs = older.get(name, name.replace("_", "")).lower()
        assert (name, NAMES[number].lower()) == (name, theirs)
        checked += 1
    assert checked > 35


def test_code_is_shown_with_its_number() -> None:
    assert (code_name(32), code_title(32)) == ("noSuchObject", "noSuchObject (32)")
    assert (code_name(9999), code_title(9999)) == ("9999", "result code 9999")


@pytest.mark.parametrize(
    ("success", "expect", "succeeded", "expected"),
    [
        ((0,), None, (0,), ()),
        ((0,), [0, 32], (0,), (32,)),
        ((0,), [32, 32, 50], (), (32, 50)),
        ((5, 6), None, (5, 6), ()),
        ((5, 6), [6], (6,), ()),
        ((5, 6), [6, 16], (6,), (16,)),
    ],
)
def test_what_is_expected_is_complete(
    success: tuple[int, ...],
    expect: list[int] | None,
    succeeded: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    assert outcome_codes(success, expect) == (succeeded, expected)


@pytest.mark.parametrize(
    ("code", "kind", "who", "size_limit", "told"),
    [
        (8, "modify", "anonymous", 0, "`bind`, or -D DN -y FILE"),
        (8, "modify", "cn=a,dc=com", 0, "the server wants TLS or a stronger bind"),
        (4, "search", "cn=a", 20, "--expect sizeLimitExceeded"),
        (4, "search", "cn=a", 0, "than the server allows cn=a"),
        (32, "modify", "cn=a", 0, "[file:dns.txt]"),
    ],
)
def test_a_code_has_a_remedy(
    code: int, kind: str, who: str, size_limit: int, told: str
) -> None:
    assert told in remedy_of(code, kind, who, size_limit)


def test_files_of_dns_are_no_remedy_for_a_missing_base() -> None:
    assert "[file:dns.txt]" not in remedy_of(32, "search", "cn=a")


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ("(uid=user.[1-5000]) at and below dc=com", "[1-5000%00000]"),
        ("(uid=user.[1-1000]) below dc=com", "[1-1000%0000]"),
        ("(uid=user.[0:999x3]) below dc=com", "[0:999x3%0000]"),
        ("(uid=user.[1-5000%00000]) at dc=com", ""),
        ("(uid=[zipf:1-9:2][random:3]) at dc=com", ""),
        ("(uid=[[1-5000]]) at dc=com", ""),
    ],
)
def test_a_range_without_a_width_may_lack_leading_zeros(about: str, told: str) -> None:
    remedy = empty_remedy(about)
    assert f"{told} writes" in remedy if told else "writes" not in remedy
    assert empty_remedy(about, 5).startswith("5 references")
