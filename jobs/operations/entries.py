# SPDX-License-Identifier: Apache-2.0
"""Operations on one entry (RFC 4511): compare (section 4.10), delete (4.8), modify
(4.6; increment: RFC 4525) and modify DN (4.9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from ldapslam.base.fault import expected
from ldapslam.jobs.fields.context import names_in
from ldapslam.jobs.fields.sections import Flag
from ldapslam.jobs.fields.texts import (
    AttributeName,
    BaseDn,
    EntryDn,
    OneValue,
    SomeValues,
    Values,
)
from ldapslam.jobs.operations.body import (
    EntryBody,
    OperationPlan,
    dn_nodes,
    nodes,
    variable,
)
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import is_of_server, parse_dn, split_rdn
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import PARENT, UUID, Node, ValueSource

_COMPARE_REQUEST = 0x6E
_COMPARE_FALSE, _COMPARE_TRUE = 5, 6


class Compare(EntryBody):
    """Compare one attribute of one entry with a value. compareTrue and compareFalse are
    both a success; `expect` can ask for one of them."""

    kind: ClassVar[str] = "compare"
    response_tag: ClassVar[int] = 0x6F
    success_codes: ClassVar[tuple[int, ...]] = (_COMPARE_FALSE, _COMPARE_TRUE)

    attribute: AttributeName = Field(examples=["departmentNumber"])
    """the attribute to compare"""
    value: OneValue = Field(examples=["[1-99]"])
    """the value to compare it with; patterns allowed"""

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        return compare_request(entry, self.attribute, nodes(self.value, scope))


def compare_request(
    entry: Iterable[Node], attribute: str, value: Iterable[Node]
) -> Node:
    assertion = ber.octet_string(attribute.encode()), ber.octet_string(*value)
    return ber.tlv(_COMPARE_REQUEST, ber.octet_string(*entry), ber.sequence(*assertion))


class _EntryWrite(EntryBody):
    """An operation that changes an entry."""

    def rehearse(
        self, scope: Scope, controls: Sequence[Node] = ()
    ) -> OperationPlan | None:
        of_server = is_of_server(self.dn or "")
        if self.of is not None or of_server:
            return None
        # a DN that is drawn may turn out to be of the server
        attributes = self._written() if of_server is False else (_ANY_ATTRIBUTE,)
        request = refused_modify(dn_nodes(self.dn or "", scope), attributes)
        return rehearsal(self.planned(request, controls))

    def _written(self) -> Iterable[str]:
        """The attributes that the identity must be allowed to write."""
        return (_ANY_ATTRIBUTE,)


_DEL_REQUEST = 0x4A


class Delete(_EntryWrite):
    """Delete one entry, by its DN or one that this run has added."""

    kind: ClassVar[str] = "delete"
    response_tag: ClassVar[int] = 0x6B
    is_needed_done: ClassVar[bool] = True

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        return ber.tlv(_DEL_REQUEST, *entry)


_MODIFY_REQUEST = 0x66
_CHANGES = {"add": 0, "delete": 1, "replace": 2, "increment": 3}


class Modify(_EntryWrite):
    """Modify one entry. The changes are sent in the order in which the file has them,
    and within each the attributes and values too."""

    kind: ClassVar[str] = "modify"
    response_tag: ClassVar[int] = 0x67
    attributes_key: ClassVar[str] = "replace"
    at_least_one: ClassVar[tuple[str, ...]] = tuple(_CHANGES)

    add: dict[AttributeName, SomeValues] = Field(default_factory=dict)
    """attribute and the value or values to add; patterns allowed"""
    delete: dict[AttributeName, Values] = Field(default_factory=dict)
    """attribute and the value or values to delete; an empty list deletes the whole
    attribute"""
    replace: dict[AttributeName, Values] = Field(default_factory=dict)
    """attribute and its new value or values; an empty list removes it"""
    increment: dict[AttributeName, int] = Field(default_factory=dict)
    """attribute and the number to add to its value (RFC 4525)"""

    _order: tuple[str, ...] = PrivateAttr(default=tuple(_CHANGES))

    @model_validator(mode="wrap")
    @classmethod
    def _keep_order(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        modify = handler(value)
        if isinstance(value, dict):
            modify._order = tuple(key for key in value if key in _CHANGES)
        return modify

    @model_serializer(mode="plain")
    def _in_order(self) -> dict[str, Any]:
        target = {"dn": self.dn} if self.of is None else {"of": self.of}
        if "order" in self.model_fields_set:
            target["order"] = self.order
        return {
            **target,
            **{change: getattr(self, change) for change in self._order},
        }

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        changes = (
            (change, attribute, [str(values)] if isinstance(values, int) else values)
            for change in self._order
            for attribute, values in getattr(self, change).items()
        )
        return modify_request(
            entry,
            (
                (change, attribute, [nodes(text, scope) for text in texts])
                for change, attribute, texts in changes
            ),
        )

    @property
    def about(self) -> str:
        changes = (f"{one} {' '.join(getattr(self, one))}" for one in self._order)
        return f"{super().about}: {', '.join(changes)}"

    def _written(self) -> Iterable[str]:
        changes = (getattr(self, change) for change in self._order)
        return dict.fromkeys(attribute for change in changes for attribute in change)


def modify_request(
    entry: Iterable[Node],
    changes: Iterable[tuple[str, str, Iterable[Sequence[Node]]]],
) -> Node:
    """The changes are: which, of what attribute, with these values."""
    parts = (
        ber.sequence(
            ber.integer(_CHANGES[change], ber.ENUMERATED),
            ber.attribute(attribute, values),
        )
        for change, attribute, values in changes
    )
    return ber.tlv(_MODIFY_REQUEST, ber.octet_string(*entry), ber.sequence(*parts))


#: Of a rehearsal for what is not about attributes.
_ANY_ATTRIBUTE = "description"
_NO_SUCH_ATTRIBUTE = 16


def refused_modify(
    entry: Iterable[Node], attributes: Iterable[str] = (_ANY_ATTRIBUTE,)
) -> Node:
    """A modify that cannot succeed on an entry of a directory's data: it deletes values
    that no entry has. A server that would let the attributes be written answers
    noSuchAttribute. Not for a server's own entries: below cn=config, 389-DS 2.3 answers
    so and has set the attribute to the value, or ends."""
    nobodys = (b"ldapslam-check-", ValueSource(UUID))
    return modify_request(
        entry, (("delete", attribute, [nobodys]) for attribute in attributes)
    )


def rehearsal(plan: OperationPlan) -> OperationPlan:
    """The plan of an operation whose request is a `refused_modify`."""
    return replace(
        plan,
        response_tag=Modify.response_tag,
        success_codes=(_NO_SUCH_ATTRIBUTE,),
        is_rehearsal=True,
    )


_MOD_DN_REQUEST = 0x6C
_NEW_SUPERIOR = 0x80


def _one_rdn(text: str, info: ValidationInfo) -> str:
    if split_rdn(parse_dn(text, names_in(info)).masked)[1]:
        raise expected("a single RDN", text, "the rest of the DN is `new_superior`")
    return text


class ModifyDn(_EntryWrite):
    """Rename one entry or move it below another. With `of`, the run goes on to know
    the entry by its new DN. `modrdn` is accepted for `modify_dn`."""

    kind: ClassVar[str] = "modify_dn"
    response_tag: ClassVar[int] = 0x6D
    is_needed_done: ClassVar[bool] = True

    new_rdn: Annotated[EntryDn, AfterValidator(_one_rdn)] = Field(
        examples=["uid=renamed.[unique]"]
    )
    """its new RDN; patterns allowed"""
    delete_old_rdn: Flag = True
    """remove the old RDN's value from the entry"""
    new_superior: BaseDn | None = None
    """DN of its new parent; patterns allowed; without it, it stays where it is"""

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        superior = (
            None if self.new_superior is None else dn_nodes(self.new_superior, scope)
        )
        rdn = dn_nodes(self.new_rdn, scope)
        return modify_dn_request(entry, rdn, self.delete_old_rdn, superior)

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        if self.of is None:
            return super().compile(scope, controls)
        # The new DN is needed twice, so its parts are drawn before the request.
        taken = self.taken(scope)
        entry = taken["ledger_take"]
        lets = [scope.let(*dn_nodes(self.new_rdn, scope))]
        rdn = lets[0].variable
        superior: tuple[Node, ...] | None = None
        parent: Node = ValueSource(PARENT, lo=entry)
        if self.new_superior is not None:
            lets.append(scope.let(*dn_nodes(self.new_superior, scope)))
            parent = variable(lets[-1].variable)
            superior = (parent,)
        # Below the root there is no comma.
        above = (b",", parent) if self.new_superior != "" else ()
        lets.append(scope.let(variable(rdn), *above))
        request = modify_dn_request(
            (variable(entry),), (variable(rdn),), self.delete_old_rdn, superior
        )
        put = lets[-1].variable
        return self.planned(
            request, controls, lets=tuple(lets), ledger_put=put, **taken
        )


def modify_dn_request(
    entry: Iterable[Node],
    rdn: Iterable[Node],
    delete_old_rdn: bool,
    superior: Iterable[Node] | None,
) -> Node:
    return ber.tlv(
        _MOD_DN_REQUEST,
        ber.octet_string(*entry),
        ber.octet_string(*rdn),
        ber.boolean(delete_old_rdn),
        b"" if superior is None else ber.tlv(_NEW_SUPERIOR, *superior),
    )
