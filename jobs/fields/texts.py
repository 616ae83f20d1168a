# SPDX-License-Identifier: Apache-2.0
"""Types of the fields of a job file that hold DNs, filters, attributes and values.

Each checks what it holds, where it stands; patterns may use the names of the session
(scope.py). The values stay texts: operations and controls compile them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.fields.context import Reading, names_in
from ldapslam.jobs.fields.sections import Kind, Text, matching
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import ATTRIBUTE, compile_filter
from ldapslam.jobs.requests.pattern import parse_pattern, with_closed_ranges
from ldapslam.jobs.requests.template import FILES, Node, ValueSource

_OID = r"[0-2](\.(0|[1-9][0-9]*))+"
#: What a search may return.
SELECTOR = rf"@?{ATTRIBUTE}|\*|\+|1\.1"


def checked_pattern(text: str, info: ValidationInfo) -> str:
    """Return the text with closed ranges; raise a Fault where a file is missing."""
    for source in parse_pattern(text, names_in(info)).sources:
        if isinstance(source, ValueSource) and source.kind in FILES:
            Reading.of(info).need(source.data.decode())
    return with_closed_ranges(text)


def _checked_dn(text: str, info: ValidationInfo) -> str:
    parse_dn(text, names_in(info))
    return checked_pattern(text, info)


def _checked_entry_dn(text: str, info: ValidationInfo) -> str:
    if not text.strip():
        raise expected("the DN of an entry", text)
    return _checked_dn(text, info)


def _checked_filter(text: str, info: ValidationInfo) -> str:
    compile_filter(text, names_in(info))
    return checked_pattern(text, info)


def _list_of_values(value: Any) -> list[Any]:
    """One value or a list of values."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _value(value: Any, info: ValidationInfo) -> str:
    """A text, or a whole number, which stands for its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        hint = None
        if isinstance(value, bool):
            hint = f"an LDAP boolean is written '{str(value).upper()}', in quotes"
        elif isinstance(value, float):
            hint = f"put it in quotes: '{value}'"
        raise expected("a value: text or a whole number", value, hint)
    return checked_pattern(value, info)


PatternText = Annotated[Text, AfterValidator(checked_pattern), Kind("text")]
#: The DN of an entry; its values may hold patterns.
EntryDn = Annotated[Text, AfterValidator(_checked_entry_dn), Kind("DN")]
#: A DN that may be empty (the root DSE).
BaseDn = Annotated[Text, AfterValidator(_checked_dn), Kind("DN")]
FilterText = Annotated[Text, AfterValidator(_checked_filter), Kind("filter")]
AttributeName = Annotated[
    Text,
    matching(ATTRIBUTE, "an attribute such as 'cn' or 'cn;lang-de'"),
    Kind("attribute"),
]
Oid = Annotated[
    Text, matching(_OID, "an OID such as '1.3.6.1.4.1.4203.1.11.3'"), Kind("OID")
]
AttributeSelector = Annotated[
    Text,
    matching(SELECTOR, "an attribute, '*' (all), '+' (operational) or '1.1' (none)"),
    Kind("attribute"),
]
#: One value of an attribute; it may hold patterns.
OneValue = Annotated[
    str,
    BeforeValidator(_value),
    WithJsonSchema({"type": ["string", "integer"]}),
    Kind("value"),
]
#: Values of an attribute; each may hold patterns.
Values = Annotated[
    list[OneValue],
    BeforeValidator(_list_of_values),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "integer", "null"]},
                {"type": "array", "items": {"type": ["string", "integer"]}},
            ]
        }
    ),
    Kind("value or list of values"),
]


def _some(values: list[str]) -> list[str]:
    if not values:
        raise Fault("expected at least one value, got none")
    return values


SomeValues = Annotated[Values, AfterValidator(_some)]


_HEX, _BASE64 = "hex:", "base64:"


def parse_octets(text: str, names: Mapping[str, int] | None = None) -> tuple[Node, ...]:
    """Content octets, with placeholders for the patterns of a text."""
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
