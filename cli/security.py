# SPDX-License-Identifier: Apache-2.0
"""Certificates on the command line: where they come from, and when plain text will do.

In this order: the options (or the file of --config), the variables LDAPSLAM_TLS_…, what
an agent got with its join token, the folder `tls` in the user's configuration. With
certificates nothing but a Unix socket is plain text; without, only loopback is, unless
--insecure says otherwise.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ldapslam.base.address import check_plaintext, is_unix
from ldapslam.base.errors import ConfigError
from ldapslam.cli.console import add_options
from ldapslam.transport.pki.certificate import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
)

if TYPE_CHECKING:
    from ldapslam.transport.credentials import TlsFiles

_Command = TypeVar("_Command", bound=Callable[..., Any])

_META_KEY = "ldapslam.security"
_VARIABLES = {
    "tls_cert": "LDAPSLAM_TLS_CERT",
    "tls_key": "LDAPSLAM_TLS_KEY",
    "tls_ca": "LDAPSLAM_TLS_CA",
}


@dataclass(frozen=True, slots=True)
class Security:
    """What the user chose for connections."""

    #: None: no certificates.
    files: TlsFiles | None = None
    #: They lie in the default folder; nobody named them.
    is_default: bool = False
    #: --insecure was given.
    insecure: bool = False

    def files_for(self, address: str) -> TlsFiles | None:
        """Certificates for a connection there; None: it is plain text.

        ConfigError where plain text would be open to others, or is not allowed.
        """
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
    """What `ldapslam pki issue` made."""
    from ldapslam.transport.credentials import TlsFiles

    return TlsFiles(
        folder / CERTIFICATE_FILE, folder / KEY_FILE, folder / AUTHORITY_FILE
    )


def default_folder() -> Path:
    """Where the user's own certificate is looked for (XDG base directories)."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "ldapslam" / "tls"


def _path_option(name: str, text: str) -> Callable[[_Command], _Command]:
    return click.option(
        name,
        metavar="FILE",
        envvar=_VARIABLES[name.removeprefix("--").replace("-", "_")],
        show_envvar=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help=text,
    )


_OPTIONS = (
    click.option(
        "--tls",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder with cert.pem, key.pem and ca.pem, as `ldapslam pki issue` makes "
        "it; in place of the next three. `ldapslam/tls` in the user's configuration "
        "is used when it is there.",
    ),
    _path_option("--tls-cert", "Own certificate (PEM)."),
    _path_option("--tls-key", "Its private key (PEM, without passphrase)."),
    _path_option("--tls-ca", "Certificate of the fleet's authority (PEM)."),
    click.option(
        "--insecure",
        is_flag=True,
        help="Allow an address that other hosts can reach, although the connection is "
        "neither encrypted nor authenticated.",
    ),
)


def security_options(command: _Command) -> _Command:
    """The options of every command that connects; `current_security` has them."""

    @functools.wraps(command)
    def with_security(*arguments: Any, **values: Any) -> Any:
        context = click.get_current_context()
        context.meta[_META_KEY] = _chosen(context, values)
        return command(*arguments, **values)

    return add_options(*_OPTIONS)(with_security)  # type: ignore[return-value]


def current_security() -> Security:
    """What the command that runs was told; outside of one, what the variables say."""
    context = click.get_current_context(silent=True)
    if context is not None and _META_KEY in context.meta:
        chosen: Security = context.meta[_META_KEY]
        return chosen
    return _with_default(_of_three(*map(os.environ.get, _VARIABLES.values())), False)


def operator_files(address: str) -> TlsFiles | None:
    """Of an operator's or viewer's connection there, checked; None: plain text."""
    files = current_security().files_for(address)
    if files is not None:
        from ldapslam.transport.credentials import check_client
        from ldapslam.transport.pki.certificate import Role

        check_client(files, Role.OPERATOR, Role.VIEWER)
    return files


def _chosen(context: click.Context, values: dict[str, Any]) -> Security:
    """Takes the options' values out of `values`."""
    folder: Path | None = values.pop("tls")
    three = [values.pop(name) for name in _VARIABLES]
    insecure: bool = values.pop("insecure")
    if folder is None:
        return _with_default(_of_three(*three), insecure)
    source = click.core.ParameterSource.COMMANDLINE
    if any(context.get_parameter_source(name) is source for name in _VARIABLES):
        raise ConfigError(
            "--tls and --tls-cert, --tls-key, --tls-ca say the same",
            hint="give --tls, or the three",
        )
    return Security(folder_files(folder), insecure=insecure)


def _of_three(
    certificate: Path | str | None, key: Path | str | None, authority: Path | str | None
) -> TlsFiles | None:
    given = {"--tls-cert": certificate, "--tls-key": key, "--tls-ca": authority}
    if not any(given.values()):
        return None
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise ConfigError(
            f"{' and '.join(missing)} missing: a certificate, its key and the "
            "authority's certificate go together",
            hint="or give --tls, a folder with cert.pem, key.pem and ca.pem",
        )
    from ldapslam.transport.credentials import TlsFiles

    return TlsFiles(*(Path(str(value)) for value in given.values()))


def _with_default(files: TlsFiles | None, insecure: bool) -> Security:
    if files is None:
        folder = default_folder()
        if (folder / CERTIFICATE_FILE).exists():
            return Security(folder_files(folder), is_default=True, insecure=insecure)
    return Security(files, insecure=insecure)
