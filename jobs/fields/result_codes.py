# SPDX-License-Identifier: Apache-2.0
"""Names of LDAP result codes, and which of them a job file expects of an operation.

The names are those of RFC 4511 section 4.1.9 and of IANA's registry of LDAP result
codes, with those of the virtual list view draft, which servers send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from ldapslam.base.fault import did_you_mean, expected
from ldapslam.jobs.fields.sections import Kind

_REGISTERED = """
0 success, 1 operationsError, 2 protocolError, 3 timeLimitExceeded, 4
sizeLimitExceeded, 5 compareFalse, 6 compareTrue, 7 authMethodNotSupported, 8
strongerAuthRequired, 10 referral, 11 adminLimitExceeded, 12
unavailableCriticalExtension, 13 confidentialityRequired, 14 saslBindInProgress, 16
noSuchAttribute, 17 undefinedAttributeType, 18 inappropriateMatching, 19
constraintViolation, 20 attributeOrValueExists, 21 invalidAttributeSyntax, 32
noSuchObject, 33 aliasProblem, 34 invalidDNSyntax, 36 aliasDereferencingProblem, 48
inappropriateAuthentication, 49 invalidCredentials, 50 insufficientAccessRights, 51
busy, 52 unavailable, 53 unwillingToPerform, 54 loopDetect, 60 sortControlMissing, 61
offsetRangeError, 64 namingViolation, 65 objectClassViolation, 66 notAllowedOnNonLeaf,
67 notAllowedOnRDN, 68 entryAlreadyExists, 69 objectClassModsProhibited, 71
affectsMultipleDSAs, 76 virtualListViewError, 80 other, 113 lcupResourcesExhausted,
114 lcupSecurityViolation, 115 lcupInvalidData, 116 lcupUnsupportedScheme, 117
lcupReloadRequired, 118 canceled, 119 noSuchOperation, 120 tooLate, 121 cannotCancel,
122 assertionFailed, 123 authorizationDenied, 4096 e-syncRefreshRequired, 16654
noOperation
"""
NAMES = {
    int(code): name
    for code, name in (entry.split() for entry in _REGISTERED.split(","))
}

#: For `ldapslam describe`.
NOTATION = "Result codes that `expect` knows by name; any other by its number.\n\n" + (
    "".join(f"    {code:>5}  {name}\n" for code, name in NAMES.items())
)

# RFC 4511 leaves the enumeration open; servers number their own from 16384.
_MAX_CODE = (1 << 31) - 1
_CODES = {name: code for code, name in NAMES.items()}


def code_name(code: int) -> str:
    """`noSuchObject`; a code without a registered name is its number."""
    return NAMES.get(code, str(code))


def code_title(code: int) -> str:
    """`noSuchObject (32)`, for people."""
    name = NAMES.get(code)
    return f"{name} ({code})" if name else f"result code {code}"


def outcome_codes(
    success_codes: Sequence[int], expect: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The codes that count as succeeded and those that count as expected. `expect` is
    complete: a success that it leaves out counts as failed. None: nothing is said."""
    if expect is None:
        return tuple(success_codes), ()
    return (
        tuple(code for code in success_codes if code in expect),
        tuple(dict.fromkeys(code for code in expect if code not in success_codes)),
    )


def _code(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= _MAX_CODE:
            return value
    elif isinstance(value, str):
        if value in _CODES:
            return _CODES[value]
        raise expected(
            "a result code", value, did_you_mean(value, _CODES, "result codes")
        )
    raise expected("a result code", value, "such as noSuchObject or 32")


def _notation(code: int) -> str | int:
    return NAMES.get(code, code)


#: A result code by its name or number.
ResultCode = Annotated[
    int,
    PlainValidator(_code),
    PlainSerializer(_notation, return_type=str | int),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": list(_CODES)},
                {"type": "integer", "minimum": 0, "maximum": _MAX_CODE},
            ]
        }
    ),
    Kind("result code", _notation),
]
