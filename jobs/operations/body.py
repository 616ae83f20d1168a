# SPDX-License-Identifier: Apache-2.0
"""What every operation of a job file has in common, and the types of their fields."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    WithJsonSchema,
    model_validator,
)

from ldapslam.jobs.dn import parse_dn
from ldapslam.jobs.fault import expected
from ldapslam.jobs.filter import ATTRIBUTE, compile_filter
from ldapslam.jobs.pattern import parse_pattern
from ldapslam.jobs.sections import Kind, Section, Text
from ldapslam.jobs.template import Node, Template, compile_template

_ATTRIBUTE = re.compile(ATTRIBUTE, re.ASCII)


class OperationBody(Section):
    """The fields of one kind of operation, and how they become a request."""

    #: Key in the job file, and name in reports.
    kind: ClassVar[str]
    #: Tag of the protocolOp that ends the operation (RFC 4511).
    response_tag: ClassVar[int]

    def request(self) -> Node:
        """The protocolOp."""
        raise NotImplementedError

    def compile(self) -> Template:
        return compile_template(self.request())

    @model_validator(mode="after")
    def _must_compile(self) -> OperationBody:
        self.compile()
        return self


def _checked_dn(text: str) -> str:
    parse_dn(text)
    return text


def _checked_entry_dn(text: str) -> str:
    if not text.strip():
        raise expected("the DN of an entry", text)
    return _checked_dn(text)


def _checked_filter(text: str) -> str:
    compile_filter(text)
    return text


def _checked_attribute(text: str) -> str:
    if not _ATTRIBUTE.fullmatch(text):
        raise expected("an attribute such as 'cn' or 'cn;lang-de'", text)
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
    parse_pattern(value)
    return value


#: The DN of an entry; its values may hold patterns.
EntryDn = Annotated[Text, AfterValidator(_checked_entry_dn), Kind("DN")]
#: A DN that may be empty (the root DSE).
BaseDn = Annotated[Text, AfterValidator(_checked_dn), Kind("DN")]
FilterText = Annotated[Text, AfterValidator(_checked_filter), Kind("filter")]
AttributeName = Annotated[Text, AfterValidator(_checked_attribute), Kind("attribute")]
AttributeSelector = Annotated[
    Text, AfterValidator(_checked_selector), Kind("attribute")
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
