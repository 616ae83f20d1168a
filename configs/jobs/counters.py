# SPDX-License-Identifier: Apache-2.0
"""An example of a Python job type: sessions that depend on what the directory says.

A client reads a person's `description`, thinks, and writes the number in it raised by
one, on condition that nobody has meanwhile: the modification deletes the value that was
read. counters.yaml runs it; docs/how-to/python-jobs.md explains it line by line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ldap

from ldapslam.agent.python_jobs.job import Client, PythonJob

#: Another client was quicker.
_OVERTAKEN = {ldap.NO_SUCH_ATTRIBUTE.errnum, ldap.TYPE_OR_VALUE_EXISTS.errnum}


class Counters(PythonJob):
    """`options`: base, people (how many user.0, user.1, … there are), think_s."""

    operations = ("read", "write")

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._base = options["base"]
        self._people = int(options.get("people", 1_000))
        self._think_s = float(options.get("think_s", 0.01))
        if self._people < 1:
            raise ValueError(
                f"people: expected a number above zero, got {self._people}"
            )

    def run(self, client: Client) -> None:
        dn = f"uid=user.{client.random.randrange(self._people)},{self._base}"
        with client.operation("read"):
            [(_, person)] = client.connection.search_ext_s(
                dn, ldap.SCOPE_BASE, attrlist=["description"]
            )
        found = person.get("description", [])
        number = int(found[0]) if found and found[0].isdigit() else 0
        changes = [(ldap.MOD_DELETE, "description", value) for value in found]
        changes.append((ldap.MOD_ADD, "description", [b"%d" % (number + 1)]))
        client.sleep(self._think_s)
        with client.operation("write", expect=_OVERTAKEN):
            client.connection.modify_ext_s(dn, changes)
