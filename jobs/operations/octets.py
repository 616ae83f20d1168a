# SPDX-License-Identifier: Apache-2.0
"""Values of controls and extended operations: text with patterns, or any octets.

text            UTF-8; patterns allowed
hex:30030a0100  octets by two hex digits each; spaces allowed between them
base64:MAMKAQA= octets in base64 (RFC 4648)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from ldapslam.base.fault import expected
from ldapslam.jobs.fields.context import names_in
from ldapslam.jobs.fields.sections import Kind, Text
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import Node

_HEX, _BASE64 = "hex:", "base64:"


def parse_octets(text: str, names: Mapping[str, int] | None = None) -> tuple[Node, ...]:
    """Content octets, with holes for the patterns of a text."""
    if text.startswith(_HEX):
        try:
            return (bytes.fromhex(text.removeprefix(_HEX)),)
        except ValueError:
            raise expected(
                "two hex digits for each octet", text, "such as hex:30030a0100"
            ) from None
    if text.startswith(_BASE64):
        try:
            return (base64.b64decode(text.removeprefix(_BASE64), validate=True),)
        except binascii.Error:
            raise expected("base64", text, "such as base64:MAMKAQA=") from None
    return parse_pattern(text, names).nodes


def _checked(text: str, info: ValidationInfo) -> str:
    parse_octets(text, names_in(info))
    return text


Octets = Annotated[Text, AfterValidator(_checked), Kind("text, hex:… or base64:…")]
