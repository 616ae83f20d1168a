# SPDX-License-Identifier: Apache-2.0
"""A sample of a directory: what ended it."""

from __future__ import annotations

from typing import Any

import ldap
import pytest

from ldapslam.directory import sample
from ldapslam.jobs.connection_settings import ConnectionSettings


class _Server:
    """Returns as many entries as its limit allows, then its result."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def search_ext(self, *_: Any, sizelimit: int) -> int:
        self._left = min(self._limit, sizelimit)
        return 1

    def result3(self, _request: int, **_: Any) -> tuple[int, list[Any]]:
        if not self._left:
            raise ldap.SIZELIMIT_EXCEEDED
        self._left -= 1
        uid = str(self._left).encode()
        return ldap.RES_SEARCH_ENTRY, [(f"uid={self._left}", {"uid": [uid]})]

    def unbind_s(self) -> None:
        pass


@pytest.mark.parametrize(
    ("limit", "ended_by"), [(5, "size limit"), (20, sample.SAMPLE)]
)
def test_a_limit_of_the_server_is_known(
    monkeypatch: pytest.MonkeyPatch, limit: int, ended_by: str
) -> None:
    monkeypatch.setattr(sample, "connect", lambda *_: _Server(limit))
    found = sample.sample_of("ldap://x", ConnectionSettings(), "dc=x", None, 20)
    assert (found.entries, found.ended_by) == (limit, ended_by)
