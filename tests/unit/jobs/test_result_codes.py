# SPDX-License-Identifier: Apache-2.0
"""Result codes by name and number, and which of them are no errors."""

from __future__ import annotations

from typing import Any

import ldap
import pytest
from pydantic import TypeAdapter, ValidationError

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
