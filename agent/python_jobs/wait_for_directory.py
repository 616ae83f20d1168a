# SPDX-License-Identifier: Apache-2.0
"""The Python job type behind `wait_for_directory`: wait until servers answer.

A client asks each server in turn for an entry or the root DSE, each time over a new
connection. One operation, `answer`, covers all attempts at one server; after the limit
it counts as timed out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import ldap

from ldapslam.agent.python_jobs.job import TIME_OUT, Client, PythonJob
from ldapslam.base.errors import BindRejected, TargetError
from ldapslam.directory.access import connect, result_code_of

_log = logging.getLogger(__name__)

_NS_PER_S = 1e9


class WaitForDirectory(PythonJob):
    """`options`: base (the root DSE when empty), limit_ns, interval_ns."""

    operations: ClassVar[tuple[str, ...]] = ("answer",)
    connects: ClassVar[bool] = False
    is_load: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._base = str(options.get("base", ""))
        self._limit_s = options["limit_ns"] / _NS_PER_S
        self._interval_s = options["interval_ns"] / _NS_PER_S
        self._last_reason = ""

    def run(self, client: Client) -> None:
        deadline_s = time.monotonic() + self._limit_s
        for uri in client.uris:
            self._wait(client, uri, deadline_s)

    def _wait(self, client: Client, uri: str, deadline_s: float) -> None:
        with client.operation("answer") as operation:
            while True:
                code = self._ask(client, uri)
                if code == 0:
                    operation.result_code = 0
                    operation.add(entries=1)
                    return
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or client.is_stopping:
                    operation.result_code = TIME_OUT
                    return
                client.wait(min(self._interval_s, left_s))

    def _ask(self, client: Client, uri: str) -> int:
        """The result code of one attempt; below zero, the server is not there."""
        try:
            connection = connect(
                uri,
                client.access,
                note_request=lambda kind: client.count_request(kind, uri),
            )
        except BindRejected as error:
            self._say(str(error))
            return error.result_code
        except TargetError as error:
            self._say(str(error))
            return -1
        try:
            client.count_connection()
            client.count_request("search", uri)
            found = connection.search_ext_s(
                self._base, ldap.SCOPE_BASE, "(objectClass=*)", ["1.1"]
            )
            return 0 if found else -1
        except ldap.LDAPError as error:
            code = result_code_of(error)
            self._say(f"{uri} answers {self._base!r} with result code {code}")
            return code
        finally:
            client.count_request("unbind", uri)
            connection.unbind_s()

    def _say(self, reason: str) -> None:
        """Log each reason once."""
        if reason != self._last_reason:
            _log.warning("still waiting: %s", reason)
        self._last_reason = reason
