# SPDX-License-Identifier: Apache-2.0
"""Connection options: the coordinator's address, certificates, and plain text.

Certificates come from, in this order: the options (or the file of --config), the
variables LDAPSLAM_TLS_…, what an agent got with its join token, the folder `tls` in the
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
    FILE,
    FOLDER,
    Command,
    add_options,
    flag,
    grouped,
    option,
)
from ldapslam.transport.pki.certificate import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
)

if TYPE_CHECKING:
    from ldapslam.transport.credentials import TlsFiles

_META_KEY = "ldapslam.security"
_FILES = {
    "tls_cert": "Own certificate (PEM).",
    "tls_key": "Its private key (PEM, without passphrase).",
    "tls_ca": "Certificate of the fleet's authority (PEM).",
}


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

    return TlsFiles(
        folder / CERTIFICATE_FILE, folder / KEY_FILE, folder / AUTHORITY_FILE
    )


def default_folder() -> Path:
    """Where the user's own certificate is looked for (XDG base directories)."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ldapslam" / "tls"


def _variable(name: str) -> str:
    return f"LDAPSLAM_{name.upper()}"


_add_security = grouped(
    "Certificates",
    option(
        "--tls DIR",
        "Folder with cert.pem, key.pem and ca.pem, as `ldapslam fleet pki issue` makes "
        "it; in place of the next three. `ldapslam/tls` in the user's configuration "
        "is used when it is there.",
        type=FOLDER,
    ),
    *(
        option(
            f"--{name.replace('_', '-')} FILE",
            text,
            envvar=_variable(name),
            show_envvar=True,
            type=FILE,
        )
        for name, text in _FILES.items()
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
        context.meta[_META_KEY] = _chosen(context, values)
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
    return _with_default(
        _of_three([os.environ.get(_variable(name)) for name in _FILES]), False
    )


def operator_files(address: str) -> TlsFiles | None:
    """Checked certificates of an operator or viewer; None: plain text."""
    files = current_security().files_for(address)
    if files is not None:
        from ldapslam.transport.credentials import check_client
        from ldapslam.transport.pki.certificate import Role

        check_client(files, Role.OPERATOR, Role.VIEWER)
    return files


def _chosen(context: click.Context, values: dict[str, Any]) -> Security:
    """Takes the options' values out of `values`."""
    folder: Path | None = values.pop("tls")
    three = [values.pop(name) for name in _FILES]
    insecure: bool = values.pop("insecure")
    if folder is None:
        return _with_default(_of_three(three), insecure)
    source = click.core.ParameterSource.COMMANDLINE
    if any(context.get_parameter_source(name) is source for name in _FILES):
        raise ConfigError(
            "--tls and --tls-cert, --tls-key, --tls-ca say the same",
            hint="give --tls, or the three",
        )
    return Security(folder_files(folder), insecure=insecure)


def _of_three(paths: list[Any]) -> TlsFiles | None:
    """TlsFiles of certificate, key and authority; ConfigError where one is missing."""
    if not any(paths):
        return None
    if not all(paths):
        pairs = zip(_FILES, paths, strict=True)
        missing = [f"--{name.replace('_', '-')}" for name, path in pairs if not path]
        raise ConfigError(
            f"{' and '.join(missing)} missing: a certificate, its key and the "
            "authority's certificate go together",
            hint="or give --tls, a folder with cert.pem, key.pem and ca.pem",
        )
    from ldapslam.transport.credentials import TlsFiles

    return TlsFiles(*(Path(str(path)) for path in paths))


def _with_default(files: TlsFiles | None, insecure: bool) -> Security:
    if files is None:
        folder = default_folder()
        if (folder / CERTIFICATE_FILE).exists():
            return Security(folder_files(folder), is_default=True, insecure=insecure)
    return Security(files, insecure=insecure)
