# SPDX-License-Identifier: Apache-2.0
"""A real 389 Directory Server with the tree of `ldapslam.lab`: people and
administrator by the same names as slapd's, so that one job file serves both servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

import pytest

from ldapslam.lab import LabError
from ldapslam.lab.ds389.programs import find_programs
from support.lab import Lab

DS389_ENTRIES = 1_000


class Ds389:
    """One server with `entries` people; a context manager."""

    def __init__(self, entries: int = DS389_ENTRIES) -> None:
        self._lab = Lab(server="389ds", entries=entries)
        self.entries = entries
        self.admin_dn = self._lab.admin_dn
        self.people_dn = self._lab.people_dn

    def __enter__(self) -> Ds389:
        self._lab.up()
        self._server = self._lab.supplier
        self.folder = self._server.folder
        self.uri = self._server.uri
        self.ldaps_uri = self._server.ldaps_uri
        self.ldapi_uri = self._server.ldapi_uri
        #: Of the authority that signed the server's certificate.
        self.ca_file = self._lab.ca_file
        self.admin_password_file = self._lab.admin_password_file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lab.down()

    def counts(self) -> dict[str, int]:
        """Operations since the start by kind, ours excluded."""
        return self._lab.monitor_counts(self._server)

    def search(
        self, base_dn: str, scope: int, attributes: list[str]
    ) -> dict[str, dict[str, list[bytes]]]:
        """All entries there, by their DN, as the administrator sees them."""
        return self._lab.search(self._server, base_dn, scope, attributes)


@pytest.fixture(scope="session")
def ds389_installed() -> None:
    """Skip the test without 389-DS, with the reason; in CI that is a failure."""
    try:
        find_programs()
    except LabError as error:
        reason = f"{error} ({error.hint})"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def ds389(ds389_installed: None) -> Iterator[Ds389]:
    """A server with 1,000 people, shared by the whole session: leave it as it was."""
    with Ds389() as server:
        yield server
