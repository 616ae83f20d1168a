# SPDX-License-Identifier: Apache-2.0
"""Connection options: the coordinator's address, certificates, and plain text.

Certificates come from, in this order: the folder of --tls (or of its variable, or of
the file of --config), what an agent got with its join token, the folder `tls` in the
user's configuration. With certificates only Unix sockets are plain text; without,
loopback is too, and other addresses with --insecure.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.address import check_plaintext, is_unix
from ldapslam.base.errors import ConfigError
from ldapslam.cli.options import (
    COORDINATOR_VARIABLE,
    DEFAULT_COORDINATOR,
    FOLDER,
    Command,
    add_options,
    flag,
    grouped,
    option,
)

if TYPE_CHECKING:
    from ldapslam.transport.credentials import TlsFiles

_META_KEY = "ldapslam.security"
_VARIABLE = "LDAPSLAM_TLS"


@dataclass(frozen=True, slots=True)
class Security:
    """What the user chose for connections."""

    #: None: no certificates.
    files: TlsFiles | None = None
    #: They lie in the default folder; the user did not name them.
    is_default: bool = False
    #: --insecure was given.
    insecure: bool = False

    @property
    def named(self) -> TlsFiles | None:
        """Certificates that the user named."""
        return None if self.is_default else self.files

    def files_for(self, address: str) -> TlsFiles | None:
        """Certificates for a connection there; None: plain text. ConfigError if that is
        not allowed."""
        if is_unix(address):
            return None
        if self.files is not None and not (self.insecure and self.is_default):
            if self.insecure:
                raise ConfigError(
                    "there are certificates, and --insecure asks for plain text",
                    hint="leave out one of them",
                )
            return self.files
        check_plaintext(address, insecure=self.insecure)
        return None


def folder_files(folder: Path) -> TlsFiles:
    """What `ldapslam fleet pki issue` made."""
    from ldapslam.transport.credentials import TlsFiles
    from ldapslam.transport.pki.certificate import (
        AUTHORITY_FILE,
        CERTIFICATE_FILE,
        KEY_FILE,
    )

    return TlsFiles(
        folder / CERTIFICATE_FILE, folder / KEY_FILE, folder / AUTHORITY_FILE
    )


def default_folder() -> Path:
    """Where the user's own certificate is looked for (XDG base directories)."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ldapslam" / "tls"


_add_security = grouped(
    "Certificates",
    option(
        "--tls DIR",
        "Folder with cert.pem, key.pem and ca.pem, as `ldapslam fleet pki issue` makes "
        "it. `ldapslam/tls` in the user's configuration is used when it is there.",
        envvar=_VARIABLE,
        show_envvar=True,
        type=FOLDER,
    ),
    flag(
        "--insecure",
        "Allow an address that other hosts can reach, although the connection is "
        "neither encrypted nor authenticated.",
    ),
)


def security_options(command: Command) -> Command:
    """The options of every command that connects; `current_security` has them."""

    @functools.wraps(command)
    def with_security(*arguments: Any, **values: Any) -> Any:
        context = click.get_current_context()
        folder, insecure = values.pop("tls"), values.pop("insecure")
        context.meta[_META_KEY] = _chosen(folder, insecure=insecure)
        return command(*arguments, **values)

    return _add_security(with_security)  # type: ignore[return-value]


#: --coordinator, and what a connection to it may need; client.py uses it.
coordinator_option = grouped(
    "Coordinator",
    option(
        "--coordinator HOST:PORT",
        "Where the coordinator listens; also unix:PATH.",
        envvar=COORDINATOR_VARIABLE,
        default=DEFAULT_COORDINATOR,
        show_envvar=True,
    ),
    security_options,
)


#: The options of every command that asks a coordinator.
client_options = add_options(coordinator_option)


def current_security() -> Security:
    """What the running command was told; outside of one, what the variables say."""
    context = click.get_current_context(silent=True)
    if context is not None and _META_KEY in context.meta:
        chosen: Security = context.meta[_META_KEY]
        return chosen
    folder = os.environ.get(_VARIABLE)
    return _chosen(Path(folder) if folder else None, insecure=False)


def operator_files(address: str) -> TlsFiles | None:
    """Checked certificates of an operator or viewer; None: plain text."""
    files = current_security().files_for(address)
    if files is not None:
        from ldapslam.transport.credentials import check_client
        from ldapslam.transport.pki.certificate import Role

        check_client(files, Role.OPERATOR, Role.VIEWER)
    return files


def _chosen(folder: Path | None, *, insecure: bool) -> Security:
    """The certificates of the folder, else those of the default one, if it has any."""
    if folder is not None:
        return Security(folder_files(folder), insecure=insecure)
    folder = default_folder()
    if folder.exists() and (files := folder_files(folder)).certificate.exists():
        return Security(files, is_default=True, insecure=insecure)
    return Security(insecure=insecure)
