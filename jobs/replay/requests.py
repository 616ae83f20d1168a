# SPDX-License-Identifier: Apache-2.0
"""From what a log says of a request to the request: its BER, or why there is none."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ldapslam.base.fault import Fault
from ldapslam.jobs.replay.log import START_TLS, Operation
from ldapslam.jobs.replay.options import Replay
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.template import Node

WHO_AM_I = "1.3.6.1.4.1.4203.1.11.3"

_SCOPES = {"base": 0, "one": 1, "sub": 2, "children": 3}
_DEREF = {"never": 0, "searching": 1, "finding": 2, "always": 3}
_REPLACE = 2


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
        return ber.tlv(
            0x63,
            ber.octet_string(operation.dn.encode()),
            ber.integer(_SCOPES[operation.scope], ber.ENUMERATED),
            ber.integer(_DEREF[operation.deref], ber.ENUMERATED),
            ber.integer(0),
            ber.integer(0),
            ber.boolean(False),
            matched,
            ber.tlv(
                ber.SEQUENCE,
                *(ber.octet_string(name.encode()) for name in operation.attributes),
            ),
        )

    def _compare(self, operation: Operation) -> Node:
        return ber.tlv(
            0x6E,
            ber.octet_string(operation.dn.encode()),
            ber.tlv(
                ber.SEQUENCE,
                ber.octet_string("".join(operation.attributes).encode()),
                ber.octet_string(self._replay.compare_value.encode()),
            ),
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
        return ber.tlv(
            0x60,
            ber.integer(3),
            ber.octet_string(dn.encode()),
            ber.tlv(0x80, password),
        )

    def _add(self, operation: Operation) -> Node:
        if self._replay.adds is None:
            raise Skipped("the log has no entries, and the job no `adds`")
        values: dict[str, list[str]] = {}
        for name, value in _rdn(operation.dn):
            values.setdefault(name.lower(), []).append(value)
        for name, given in self._replay.adds.entry.items():
            listed = values.setdefault(name.lower(), [])
            if name.lower() not in {n.lower() for n, _ in _rdn(operation.dn)}:
                listed += [given] if isinstance(given, str) else given
        return ber.tlv(
            0x68,
            ber.octet_string(operation.dn.encode()),
            ber.tlv(
                ber.SEQUENCE,
                *(_attribute(name, texts) for name, texts in values.items()),
            ),
        )

    def _modify(self, operation: Operation) -> Node:
        modifies = self._replay.modifies
        if modifies is None:
            raise Skipped("the log has no new values, and the job no `modifies`")
        value = "".join(self._random.choices(string.ascii_lowercase, k=modifies.length))
        return ber.tlv(
            0x66,
            ber.octet_string(operation.dn.encode()),
            ber.tlv(
                ber.SEQUENCE,
                ber.tlv(
                    ber.SEQUENCE,
                    ber.integer(_REPLACE, ber.ENUMERATED),
                    _attribute(modifies.attribute, [value]),
                ),
            ),
        )

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
        return ber.tlv(
            0x6C,
            ber.octet_string(operation.dn.encode()),
            ber.octet_string(operation.new_rdn.encode()),
            ber.boolean(operation.delete_old_rdn),
            b"" if superior is None else ber.tlv(0x80, superior.encode()),
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


def _attribute(name: str, values: list[str]) -> Node:
    return ber.tlv(
        ber.SEQUENCE,
        ber.octet_string(name.encode()),
        ber.tlv(ber.SET, *(ber.octet_string(value.encode()) for value in values)),
    )


def _rdn(dn: str) -> list[tuple[str, str]]:
    """Types and values of a DN's first RDN, with their escapes undone."""
    found: list[tuple[str, str]] = []
    name, value, octets = "", bytearray(), dn.encode()
    at = 0
    is_name = True
    while at < len(octets):
        byte = octets[at : at + 1]
        at += 1
        if is_name:
            if byte == b"=":
                is_name = False
            else:
                name += byte.decode("utf-8", "replace")
        elif byte == b"\\":
            pair = octets[at : at + 2]
            if len(pair) == 2 and all(chr(c) in string.hexdigits for c in pair):
                value += bytes.fromhex(pair.decode())
                at += 2
            else:
                value += octets[at : at + 1]
                at += 1
        elif byte in (b"+", b","):
            found.append((name.strip(), value.decode("utf-8", "replace").strip()))
            name, value, is_name = "", bytearray(), True
            if byte == b",":
                return found
        else:
            value += byte
    if not is_name:
        found.append((name.strip(), value.decode("utf-8", "replace").strip()))
    return found
