# SPDX-License-Identifier: Apache-2.0
"""Secrets by reference: a job names where a password is, never the password.

Agents resolve references just before a bind. A resolved secret is never logged, stored,
shown or sent to a peer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError

MAX_SECRET_BYTES = 4096


@dataclass(frozen=True)
class SecretRef:
    """Exactly one of the two: an environment variable, or a file (absolute path)."""

    env: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        return f"{{env: {self.env}}}" if self.env else f"{{file: {self.file}}}"

    def resolve(self) -> bytes:
        """The secret itself; ConfigError when it is not there or empty."""
        secret = self._from_env(self.env) if self.env else self._from_file()
        if not secret:
            # an empty password makes a simple bind an anonymous one (RFC 4513 5.1.2)
            raise ConfigError(
                f"the secret {self} is empty", hint="a password cannot be empty"
            )
        return secret

    def _from_env(self, name: str) -> bytes:
        value = os.environb.get(name.encode())
        if value is None:
            raise ConfigError(
                f"the secret {self} is not set",
                hint=f"export {name} in this shell, or in the environment of the agent "
                "where another host sends the load",
            )
        return value

    def _from_file(self) -> bytes:
        path = Path(self.file or "")
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_SECRET_BYTES + 1)
        except OSError as error:
            raise ConfigError(
                f"the secret {self} cannot be read: {error.strerror}",
                hint="the file must be readable by this user, or by the agent where "
                "another host sends the load",
            ) from error
        if len(content) > MAX_SECRET_BYTES:
            raise ConfigError(
                f"the secret {self} is longer than {MAX_SECRET_BYTES} bytes"
            )
        # Editors end the last line; a password ends where the line does.
        return content.removesuffix(b"\n").removesuffix(b"\r")
