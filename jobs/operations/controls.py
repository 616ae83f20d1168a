# SPDX-License-Identifier: Apache-2.0
"""The request controls of an operation (RFC 4511 section 4.1.11).

Controls are critical unless the job file says otherwise: a server that would ignore one
refuses the request, so that it is not measured without what was asked for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from ldapslam.base.fault import Fault, expected, got, one_of, unknown
from ldapslam.jobs.fields.connection import check_authzid
from ldapslam.jobs.fields.context import names_in
from ldapslam.jobs.fields.sections import (
    Flag,
    Kind,
    Section,
    Text,
    checked,
    matching,
    one_or_more,
    one_or_more_schema,
)
from ldapslam.jobs.fields.texts import (
    AttributeSelector,
    FilterText,
    Octets,
    Oid,
    PatternText,
    parse_octets,
)
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.filter import ATTRIBUTE, compile_filter
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import LIST, Node, Tlv, ValueSource

_PAGED_RESULTS = "1.2.840.113556.1.4.319"
_TREE_DELETE = "1.2.840.113556.1.4.805"

UPDATES = ("add", "delete", "modify", "modify_dn")
#: Key in the job file: OID, and the operations that the control is for.
CONTROLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "server_side_sort": ("1.2.840.113556.1.4.473", ("search",)),
    "vlv": ("2.16.840.1.113730.3.4.9", ("search",)),
    "matched_values": ("1.2.826.0.1.3344810.2.3", ("search",)),
    "subentries": ("1.3.6.1.4.1.4203.1.10.1", ("search",)),
    "dont_use_copy": ("1.3.6.1.1.22", ("search", "compare")),
    "manage_dsa_it": (
        "2.16.840.1.113730.3.4.2",
        ("search", "compare", *UPDATES),
    ),
    "proxied_authorization": (
        "2.16.840.1.113730.3.4.18",
        ("search", "compare", *UPDATES, "extended"),
    ),
    "assertion": ("1.3.6.1.1.12", ("search", "compare", *UPDATES)),
    "pre_read": ("1.3.6.1.1.13.1", ("delete", "modify", "modify_dn")),
    "post_read": ("1.3.6.1.1.13.2", ("add", "modify", "modify_dn")),
    "permissive_modify": ("1.2.840.113556.1.4.1413", ("modify",)),
    "tree_delete": (_TREE_DELETE, ("delete",)),
    "authorization_identity": ("2.16.840.1.113730.3.4.16", ("bind",)),
    "password_policy": (
        "1.3.6.1.4.1.42.2.27.8.5.1",
        ("bind", "add", "compare", "modify", "extended"),
    ),
}
_NO_CONTROLS = ("abandon", "unbind", "sequence")
_MAX_INT = (1 << 31) - 1
_MAX_OFFSETS = 4096

_SORT_KEY = rf"(-)?({ATTRIBUTE})(?::([A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+))?"
_ORDERING_RULE, _REVERSE_ORDER = 0x80, 0x81
_BY_OFFSET, _GREATER_THAN_OR_EQUAL = 0xA0, 0x81
_COMBINATIONS = (0xA0, 0xA1, 0xA2)


def control_node(oid: str, critical: bool, *value: Node) -> Node:
    """A Control; `value` holds the content octets of its controlValue, if any."""
    return ber.sequence(
        ber.octet_string(oid.encode()),
        ber.boolean(True) if critical else b"",  # DEFAULT FALSE is left out
        ber.octet_string(*value) if value else b"",
    )


def paged_results(size: int, cookie: Node) -> Node:
    """The control of a page (RFC 2696)."""
    value = ber.sequence(ber.integer(size), ber.octet_string(cookie))
    return control_node(_PAGED_RESULTS, True, value)


def _simple_item(text: str, info: ValidationInfo) -> str:
    node = compile_filter(text, names_in(info))
    tag = node.tag if isinstance(node, Tlv) else None
    if isinstance(node, bytes):
        tag = node[0]
    if tag in _COMBINATIONS or re.search(":dn[:=]", text, re.IGNORECASE):
        raise Fault(
            f"expected a filter of one item, got {got(text)}",
            "matched values (RFC 3876) knows no &, |, ! and :dn; write a list",
        )
    return text


def _offset(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= _MAX_INT:
            raise expected("an offset from 1", value)
        return str(value)
    if isinstance(value, str) and (match := re.fullmatch(r"\[(\d+)-(\d+)\]", value)):
        lo, hi = int(match[1]), int(match[2])
        if 1 <= lo <= hi <= _MAX_INT and hi - lo < _MAX_OFFSETS:
            return value
        raise expected(
            f"a range of at most {_MAX_OFFSETS} offsets from 1", value, "such as [1-99]"
        )
    if isinstance(value, str) and re.fullmatch("[1-9][0-9]{0,8}", value):
        return value
    raise expected("an offset from 1, or a range such as [1-99]", value)


_TEXT_SCHEMA: dict[str, Any] = {"type": "string"}
SortKeys = Annotated[
    list[
        Annotated[
            Text,
            matching(
                _SORT_KEY,
                "a sort key",
                "such as cn, -cn (reversed) or -cn:caseIgnoreMatch",
            ),
            Kind("sort key"),
        ]
    ],
    Field(min_length=1),
    BeforeValidator(one_or_more),
    one_or_more_schema(_TEXT_SCHEMA, minItems=1),
    Kind("sort key or list of sort keys"),
]
ItemFilters = Annotated[
    list[Annotated[FilterText, AfterValidator(_simple_item)]],
    Field(min_length=1),
    BeforeValidator(one_or_more),
    one_or_more_schema(_TEXT_SCHEMA, minItems=1),
    Kind("filter or list of filters"),
]
Selectors = Annotated[
    list[AttributeSelector],
    BeforeValidator(one_or_more),
    one_or_more_schema(_TEXT_SCHEMA, minItems=1),
    Kind("attribute or list of attributes"),
]
Offset = Annotated[
    str,
    BeforeValidator(_offset),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, _TEXT_SCHEMA]}),
    Kind("offset"),
]
NonNegative = Annotated[int, Field(ge=0, le=_MAX_INT), Kind("count")]
_Given = Annotated[Literal[True] | None, Kind("true")]


class Vlv(Section):
    """A virtual list view (draft-ietf-ldapext-ldapv3-vlv-09): entries around a target
    in the sorted result."""

    exactly_one: ClassVar[tuple[str, ...]] = ("offset", "value")

    before: NonNegative = 0
    """entries before the target"""
    after: NonNegative = 0
    """entries after the target"""
    offset: Offset | None = Field(default=None, examples=["1"])
    """the target's place in the list, from 1; or a range to draw it from, such as
    [1-99]"""
    count: NonNegative = 0
    """entries that the client believes are in the list: the server scales `offset` by
    it; 0: as the server has it"""
    value: PatternText | None = None
    """the target is the first entry whose sort key is at least this; patterns
    allowed"""

    def request_value(self, scope: Scope) -> Node:
        if self.value is not None:
            value = parse_pattern(self.value, scope.names).nodes
            target = ber.tlv(_GREATER_THAN_OR_EQUAL, *value)
        else:
            target = ber.tlv(_BY_OFFSET, _integer(self.offset), ber.integer(self.count))
        return ber.tlv(
            ber.SEQUENCE, ber.integer(self.before), ber.integer(self.after), target
        )


def _integer(text: str | None) -> Node:
    """An INTEGER, perhaps one of a range: its content octets are drawn from a list."""
    lo, _, hi = (text or "1").strip("[]").partition("-")
    if not hi:
        return ber.integer(int(lo))
    entries = b""
    for number in range(int(lo), int(hi) + 1):
        octets = ber.integer(number)
        assert isinstance(octets, bytes)
        entries += struct.pack("<II", 1, len(octets) - 2) + octets[2:]
    return ber.tlv(ber.INTEGER, ValueSource(LIST, data=entries))


class Control(Section):
    """One control. Those that take no value may be written by their name alone."""

    exactly_one: ClassVar[tuple[str, ...]] = (*CONTROLS, "oid")
    choice_noun: ClassVar[str] = "control"
    needs: ClassVar[Mapping[str, str]] = {"value": "oid"}

    server_side_sort: SortKeys | None = Field(
        default=None, examples=["[sn, -givenName:caseExactOrderingMatch]"]
    )
    """sort keys (RFC 2891): an attribute, a - before it to reverse the order, a :rule
    behind it for another ordering rule"""
    vlv: Vlv | None = Field(default=None, examples=["{after: 19, offset: '[1-99]'}"])
    """virtual list view; goes with server_side_sort"""
    matched_values: ItemFilters | None = Field(
        default=None, examples=["(mail=*@example.com)"]
    )
    """return only values that meet one of these filters (RFC 3876); patterns allowed"""
    subentries: Flag | None = None
    """return subentries, and nothing else (RFC 3672); false: no subentries"""
    dont_use_copy: _Given = None
    """answer from the master copy (RFC 6171)"""
    manage_dsa_it: _Given = None
    """treat referrals as entries (RFC 3296)"""
    proxied_authorization: PatternText | None = Field(
        default=None, examples=["dn:uid=user.[0-999],ou=people,dc=example,dc=com"]
    )
    """act as this identity (RFC 4370), 'dn:…' or 'u:…', empty for anonymous; patterns
    allowed; always critical"""
    assertion: FilterText | None = Field(
        default=None, examples=["(employeeType=active)"]
    )
    """process only if the entry meets this filter (RFC 4528); patterns allowed"""
    pre_read: Selectors | None = Field(default=None, examples=["[description]"])
    """return these attributes as they were before (RFC 4527)"""
    post_read: Selectors | None = Field(default=None, examples=["[entryCSN]"])
    """return these attributes as they are afterwards (RFC 4527)"""
    permissive_modify: _Given = None
    """adding a value that is there, or deleting one that is not, is no error"""
    tree_delete: _Given = None
    """delete all below the entry too; only for an entry that this run has added
    (`of`)"""
    authorization_identity: _Given = None
    """return the identity that was bound (RFC 3829)"""
    password_policy: _Given = None
    """ask for warnings and errors of the password policy
    (draft-behera-ldap-password-policy)"""
    oid: Oid | None = Field(default=None, examples=["1.3.6.1.4.1.4203.1.9.1.1"])
    """any other control"""
    value: Octets | None = None
    """value of the control `oid`: text with patterns, hex:… or base64:…"""
    critical: Flag = True
    """whether a server that does not know the control must refuse the operation"""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value in BARE_CONTROLS:
            return {value: True}
        if value in CONTROLS:
            example = cls.model_fields[value].examples
            hint = f"such as {{{value}: {example[0] if example else '…'}}}"
            raise Fault(f"the control {value!r} needs a value", hint)
        if value == "paged_results":
            raise _paged()
        raise unknown("control", value, CONTROLS)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        return {"anyOf": [{"enum": list(BARE_CONTROLS)}, schema]}

    @checked
    def _goes_together(self) -> None:
        if self.oid == _PAGED_RESULTS:
            raise _paged()
        if self.proxied_authorization is not None:
            if self.proxied_authorization:
                check_authzid(self.proxied_authorization)
            if not self.critical:
                raise Fault(
                    "proxied authorization is always critical",
                    "leave `critical` out (RFC 4370 section 3)",
                )

    @property
    def key(self) -> str:
        """Its key in the job file."""
        return next(key for key in self.exactly_one if getattr(self, key) is not None)

    def node(self, scope: Scope) -> Node:
        if self.oid is not None:
            value = None
            if self.value is not None:
                value = parse_octets(self.value, scope.names) or (b"",)
            return control_node(self.oid, self.critical, *(value or ()))
        encode = _VALUES.get(self.key)
        nodes = encode(getattr(self, self.key), scope) if encode else ()
        return control_node(CONTROLS[self.key][0], self.critical, *nodes)


def _paged() -> Fault:
    return Fault("paged results are a matter of the search", "write `page_size: 100`")


def _sort_key(text: str) -> Node:
    match = re.fullmatch(_SORT_KEY, text, re.ASCII)
    assert match is not None
    reverse, attribute, rule = match.groups()
    return ber.sequence(
        ber.octet_string(attribute.encode()),
        ber.tlv(_ORDERING_RULE, rule.encode()) if rule else b"",
        ber.boolean(True, _REVERSE_ORDER) if reverse else b"",
    )


def _selectors(names: list[str], _: Scope) -> tuple[Node, ...]:
    return (ber.sequence(*(ber.octet_string(name.encode()) for name in names)),)


#: Content octets of the values of controls that have one.
_VALUES: dict[str, Callable[[Any, Scope], tuple[Node, ...]]] = {
    "server_side_sort": lambda keys, _: (ber.sequence(*map(_sort_key, keys)),),
    "vlv": lambda vlv, scope: (vlv.request_value(scope),),
    "matched_values": lambda texts, scope: (
        ber.sequence(*(compile_filter(text, scope.names) for text in texts)),
    ),
    "subentries": lambda value, _: (ber.boolean(value),),
    # RFC 4370 section 3: the authzId itself, without a tag; it may be empty.
    "proxied_authorization": lambda text, scope: (
        parse_pattern(text, scope.names).nodes or (b"",)
    ),
    "assertion": lambda text, scope: (compile_filter(text, scope.names),),
    "pre_read": _selectors,
    "post_read": _selectors,
}
#: Controls that need no more than their name.
BARE_CONTROLS = tuple(
    key for key in CONTROLS if key not in _VALUES or key == "subentries"
)


def misplaced_controls(
    kind: str, body: Section, controls: Sequence[Control]
) -> Iterator[tuple[int, Fault]]:
    """What is wrong with the controls of an operation of this kind, by their index."""
    keys = [(control.key, control.oid) for control in controls]
    for index, (key, oid) in enumerate(keys):
        number, kinds = CONTROLS.get(key, (oid, (kind,)))
        if keys.index((key, oid)) < index:
            yield index, Fault(f"the control {oid or key!r} is given twice", "keep one")
        elif kind in _NO_CONTROLS:
            yield index, Fault(f"{kind} takes no controls", "leave `controls` out")
        elif kind not in kinds:
            fault = f"the control {key!r} is not for the operation {kind!r}"
            yield index, Fault(fault, f"it is for {one_of(kinds)}")
        elif key == "vlv" and ("server_side_sort", None) not in keys:
            fault = "a virtual list view needs a sorted result"
            yield index, Fault(fault, "add the control server_side_sort: [cn]")
        elif number == _TREE_DELETE and getattr(body, "of", None) is None:
            yield (
                index,
                Fault(
                    "tree_delete would remove entries that this run has not added",
                    "delete an entry that it has: {delete: {of: NAME}}",
                ),
            )
