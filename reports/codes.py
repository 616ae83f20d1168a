# SPDX-License-Identifier: Apache-2.0
"""Names of LDAP result codes (RFC 4511, 4.1.9, and the registered extensions)."""

from __future__ import annotations

_NAMES = {
    0: "success",
    1: "operationsError",
    2: "protocolError",
    3: "timeLimitExceeded",
    4: "sizeLimitExceeded",
    5: "compareFalse",
    6: "compareTrue",
    7: "authMethodNotSupported",
    8: "strongerAuthRequired",
    10: "referral",
    11: "adminLimitExceeded",
    12: "unavailableCriticalExtension",
    13: "confidentialityRequired",
    14: "saslBindInProgress",
    16: "noSuchAttribute",
    17: "undefinedAttributeType",
    18: "inappropriateMatching",
    19: "constraintViolation",
    20: "attributeOrValueExists",
    21: "invalidAttributeSyntax",
    32: "noSuchObject",
    33: "aliasProblem",
    34: "invalidDNSyntax",
    36: "aliasDereferencingProblem",
    48: "inappropriateAuthentication",
    49: "invalidCredentials",
    50: "insufficientAccessRights",
    51: "busy",
    52: "unavailable",
    53: "unwillingToPerform",
    54: "loopDetect",
    64: "namingViolation",
    65: "objectClassViolation",
    66: "notAllowedOnNonLeaf",
    67: "notAllowedOnRDN",
    68: "entryAlreadyExists",
    69: "objectClassModsProhibited",
    71: "affectsMultipleDSAs",
    80: "other",
    118: "canceled",
    119: "noSuchOperation",
    120: "tooLate",
    121: "cannotCancel",
    122: "assertionFailed",
    123: "authorizationDenied",
    4096: "e-syncRefreshRequired",
}


def code_name(code: int) -> str:
    """`noSuchObject`; a code without a registered name is its number."""
    return _NAMES.get(code, str(code))


def code_title(code: int) -> str:
    """`noSuchObject (32)`, for people."""
    name = _NAMES.get(code)
    return f"{name} ({code})" if name else f"result code {code}"
