# SPDX-License-Identifier: Apache-2.0
"""What `check` found wrong: all of it, each fault told once."""

from __future__ import annotations

from typing import Any

from ldapslam.base.errors import (
    BindRejected,
    ExitCode,
    LdapSlamError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.cli.console import complain, error_document


class Faults:
    """Errors by what they are about: who asks a server for something else later finds
    the same wrong with it, and tells it in other words."""

    def __init__(self) -> None:
        self._found: dict[object, LdapSlamError] = {}

    def add(self, error: LdapSlamError) -> dict[str, Any]:
        """Tell it, unless it was; the document of it."""
        subject = _subject(error)
        if subject not in self._found:
            self._found[subject] = error
            complain(error)
        return error_document(error)

    def is_unreachable(self, uri: str) -> bool:
        """Nobody need wait for that server again."""
        return _unreachable(uri) in self._found

    @property
    def exit_code(self) -> ExitCode:
        """That of the first."""
        return next((one.exit_code for one in self._found.values()), ExitCode.PASS)


def _subject(error: LdapSlamError) -> object:
    match error:
        case TargetUnreachable() | TlsHandshakeFailed():
            return _unreachable(error.uri)
        case BindRejected():
            return "bind", error.uri, error.bind_dn, error.result_code
    return type(error), str(error)


def _unreachable(uri: str) -> object:
    return "reach", uri
