# SPDX-License-Identifier: Apache-2.0
"""From what a log says of a request to the request: its BER, or why there is none."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.add import add_request
from ldapslam.jobs.operations.bind import simple_bind
from ldapslam.jobs.operations.entries import (
    compare_request,
    modify_dn_request,
    modify_request,
)
from ldapslam.jobs.operations.extended import WHO_AM_I
from ldapslam.jobs.operations.search import search_request
from ldapslam.jobs.replay.log import START_TLS, Operation
from ldapslam.jobs.replay.options import Replay
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import rdn_values
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.template import Node


@dataclass(frozen=True)
class Identity:
    """Whom binds are as, where the job says `as_configured`."""

    dn: str
    password: bytes


class Skipped(Exception):
    """There is no such request: the reason, as the report has it."""


class Requests:
    """Makes the requests of one replay; the same ones from the same seed."""

    def __init__(self, replay: Replay, seed: int, identity: Identity | None) -> None:
        self._replay = replay
        self._random = random.Random(seed)
        self._identity = identity
        self._makers: dict[str, Callable[[Operation], Node]] = {
            "search": self._search,
            "compare": self._compare,
            "bind": self._bind,
            "add": self._add,
            "modify": self._modify,
            "delete": self._delete,
            "modify_dn": self._modify_dn,
            "extended": self._extended,
        }

    def make(self, operation: Operation) -> bytes:
        """What follows the messageID; Skipped says why there is nothing."""
        if operation.problem:
            raise Skipped(operation.problem)
        make = self._makers.get(operation.kind)
        if make is None:
            raise Skipped("abandons are not replayed")
        if "\ufffd" in operation.dn or "\ufffd" in operation.filter:
            raise Skipped("the line is not UTF-8")
        node = make(operation)
        if not isinstance(node, bytes):
            raise Skipped("the request cannot be encoded")
        return node

    def _search(self, operation: Operation) -> Node:
        if operation.is_persistent:
            raise Skipped("persistent searches have no end")
        try:
            matched = _filter(operation.filter)
        except Fault:
            raise Skipped("the filter is cut off or not known to the server") from None
        return search_request(
            (operation.dn.encode(),),
            operation.scope,
            operation.deref,
            matched,
            operation.attributes,
        )

    def _compare(self, operation: Operation) -> Node:
        return compare_request(
            (operation.dn.encode(),),
            "".join(operation.attributes),
            (self._replay.compare_value.encode(),),
        )

    def _bind(self, operation: Operation) -> Node:
        binds = self._replay.binds
        if operation.method != "simple":
            raise Skipped("SASL binds are not replayed")
        if binds is None:
            raise Skipped("the log has no passwords, and the job no `binds`")
        dn, password = operation.dn, b""
        if dn:
            password = (binds.password or "").encode()
            if binds.as_configured and self._identity is not None:
                dn, password = self._identity.dn, self._identity.password
        return simple_bind((dn.encode(),), (password,))

    def _add(self, operation: Operation) -> Node:
        if self._replay.adds is None:
            raise Skipped("the log has no entries, and the job no `adds`")
        values: dict[str, list[str]] = {}
        for name, value in rdn_values(operation.dn):
            values.setdefault(name.lower(), []).append(value)
        of_rdn = set(values)
        for name, given in self._replay.adds.entry.items():
            listed = values.setdefault(name.lower(), [])
            if name.lower() not in of_rdn:
                listed += [given] if isinstance(given, str) else given
        attributes = (
            ber.attribute(name, [(text.encode(),) for text in texts])
            for name, texts in values.items()
        )
        return add_request((operation.dn.encode(),), attributes)

    def _modify(self, operation: Operation) -> Node:
        modifies = self._replay.modifies
        if modifies is None:
            raise Skipped("the log has no new values, and the job no `modifies`")
        value = "".join(self._random.choices(string.ascii_lowercase, k=modifies.length))
        change = ("replace", modifies.attribute, [(value.encode(),)])
        return modify_request((operation.dn.encode(),), [change])

    def _delete(self, operation: Operation) -> Node:
        if not self._replay.deletes:
            raise Skipped("the job does not say `deletes: true`")
        return ber.tlv(0x4A, operation.dn.encode())

    def _modify_dn(self, operation: Operation) -> Node:
        if not operation.new_rdn:
            raise Skipped("the log does not have the new name")
        if not self._replay.renames:
            raise Skipped("the job does not say `renames: true`")
        superior = operation.new_superior
        return modify_dn_request(
            (operation.dn.encode(),),
            (operation.new_rdn.encode(),),
            operation.delete_old_rdn,
            None if superior is None else (superior.encode(),),
        )

    def _extended(self, operation: Operation) -> Node:
        if operation.oid == START_TLS:
            raise Skipped("StartTLS is the set-up's, as the job has it")
        if operation.oid != WHO_AM_I:
            raise Skipped("the log has no values of extended operations")
        return ber.tlv(0x77, ber.tlv(0x80, WHO_AM_I.encode()))


@lru_cache(maxsize=65_536)
def _filter(text: str) -> Node:
    return compile_filter(text.replace("[", "[[").replace("]", "]]"))
