# SPDX-License-Identifier: Apache-2.0
"""Types of the fields of a job file that hold DNs, filters, attributes and values.

Each checks what it holds, where it stands; patterns may use the names of the current
scope (scope.py). The values stay texts: operations and controls compile them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.fields.sections import Kind, Text
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import ATTRIBUTE, compile_filter
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import current_scope

_ATTRIBUTE = re.compile(ATTRIBUTE, re.ASCII)
_OID = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+", re.ASCII)


def _checked_dn(text: str) -> str:
    parse_dn(text, current_scope().names)
    return text


def _checked_entry_dn(text: str) -> str:
    if not text.strip():
        raise expected("the DN of an entry", text)
    return _checked_dn(text)


def _checked_pattern(text: str) -> str:
    parse_pattern(text, current_scope().names)
    return text


def _checked_filter(text: str) -> str:
    compile_filter(text, current_scope().names)
    return text


def _checked_attribute(text: str) -> str:
    if not _ATTRIBUTE.fullmatch(text):
        raise expected("an attribute such as 'cn' or 'cn;lang-de'", text)
    return text


def _checked_oid(text: str) -> str:
    if not _OID.fullmatch(text):
        raise expected("an OID such as '1.3.6.1.4.1.4203.1.11.3'", text)
    return text


def _checked_selector(text: str) -> str:
    if text not in ("*", "+", "1.1") and not _ATTRIBUTE.fullmatch(
        text.removeprefix("@")
    ):
        raise expected(
            "an attribute, '*' (all), '+' (operational) or '1.1' (none)", text
        )
    return text


def _values(value: Any) -> list[str]:
    """One value or a list of values; whole numbers stand for their digits."""
    if value is None:
        return []
    return [_value(item) for item in (value if isinstance(value, list) else [value])]


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        hint = None
        if isinstance(value, bool):
            hint = f"an LDAP boolean is written '{str(value).upper()}', in quotes"
        elif isinstance(value, float):
            hint = f"put it in quotes: '{value}'"
        raise expected("a value: text or a whole number", value, hint)
    return _checked_pattern(value)


PatternText = Annotated[Text, AfterValidator(_checked_pattern), Kind("text")]
#: The DN of an entry; its values may hold patterns.
EntryDn = Annotated[Text, AfterValidator(_checked_entry_dn), Kind("DN")]
#: A DN that may be empty (the root DSE).
BaseDn = Annotated[Text, AfterValidator(_checked_dn), Kind("DN")]
FilterText = Annotated[Text, AfterValidator(_checked_filter), Kind("filter")]
AttributeName = Annotated[Text, AfterValidator(_checked_attribute), Kind("attribute")]
Oid = Annotated[Text, AfterValidator(_checked_oid), Kind("OID")]
AttributeSelector = Annotated[
    Text, AfterValidator(_checked_selector), Kind("attribute")
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
    list[str],
    BeforeValidator(_values),
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
