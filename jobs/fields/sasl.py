# SPDX-License-Identifier: Apache-2.0
"""SASL mechanisms (RFC 4422, RFC 4513 section 5.2): their names, and what each needs.

What is known here are the mechanisms of cyrus-sasl; another one is passed on to libsasl
as it is.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.fields.sections import Kind, Text

_NAME = re.compile("[A-Z0-9_-]{1,20}", re.ASCII)
_SCRAM = re.compile("SCRAM-SHA-[0-9]+(-PLUS)?", re.ASCII)

#: One message from the client and the outcome: a template can be the whole bind.
SINGLE_STEP = ("EXTERNAL", "PLAIN", "ANONYMOUS")
_WITH_PASSWORD = ("PLAIN", "CRAM-MD5", "DIGEST-MD5", "LOGIN")
#: The server, or the ticket cache, knows who it is.
_WITHOUT_PASSWORD = ("EXTERNAL", "GSSAPI", "GSS-SPNEGO", "ANONYMOUS")


def _checked_mechanism(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise expected(
            "the name of a SASL mechanism",
            text,
            "such as SCRAM-SHA-256, EXTERNAL or GSSAPI, in upper case",
        )
    return text


Mechanism = Annotated[Text, AfterValidator(_checked_mechanism), Kind("name")]


def check_authzid(text: str) -> str:
    """The text, if it is an authzId (RFC 4513 section 5.2.1.8)."""
    if not text.startswith(("dn:", "u:")):
        raise expected("'dn:' and a DN, or 'u:' and a user's name", text)
    return text


def check_properties(mechanism: str, authcid: Any, password: Any, realm: Any) -> None:
    """A Fault where the mechanism lacks what it needs, or has what it cannot use."""
    if mechanism in _WITH_PASSWORD or _SCRAM.fullmatch(mechanism):
        missing = [
            name
            for name, value in (("authcid", authcid), ("password", password))
            if value is None
        ]
        if missing:
            raise Fault(
                f"{mechanism} needs {' and '.join(missing)}",
                "authcid: whose password it is; password: the password",
            )
    if mechanism in _WITHOUT_PASSWORD and password is not None:
        raise Fault(f"{mechanism} has no password", "leave `password` out")
    if mechanism == "EXTERNAL" and (authcid is not None or realm is not None):
        raise Fault(
            "EXTERNAL has neither authcid nor realm",
            "the identity is that of the TLS certificate or of the Unix socket",
        )
