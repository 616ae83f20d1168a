# SPDX-License-Identifier: Apache-2.0
"""Both ends of a connection: mutual TLS with certificates, plain without.

With certificates nothing falls back to plain text; only a Unix socket is always plain.
Files are read for each connection, so that a renewed certificate needs no restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
from cryptography import x509

from ldapslam.base.address import grpc_target
from ldapslam.base.errors import AccessRefused, ConfigError
from ldapslam.base.files import stamp
from ldapslam.transport.codec import CHANNEL_OPTIONS
from ldapslam.transport.pki.certificate import (
    Identity,
    Role,
    identity_of,
    public_key_bytes,
    read_any_key,
    read_certificates,
    read_pem,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Our certificate and key, and the trusted authority; PEM files."""

    certificate: Path
    key: Path
    authority: Path
    #: For a coordinator; None: no certificate is revoked.
    revoked: Path | None = None

    def identity(self) -> Identity:
        certificate = read_certificates(self.certificate)[0]
        read_certificates(self.authority)
        key = read_any_key(self.key)
        ours, theirs = key.public_key(), certificate.public_key()
        if public_key_bytes(ours) != public_key_bytes(theirs):
            raise ConfigError(
                f"{self.key}: is not the key of the certificate {self.certificate}"
            )
        try:
            identity = identity_of(certificate)
            identity.check_time(datetime.now(UTC))
        except AccessRefused as error:
            raise ConfigError(
                f"{self.certificate}: {error}", hint=error.hint
            ) from error
        return identity

    def authorities(self) -> list[x509.Certificate]:
        return read_certificates(self.authority)

    def issuers(self) -> list[x509.Certificate]:
        """The authorities, and those between them and our certificate."""
        return [*self.authorities(), *read_certificates(self.certificate)[1:]]


#: Of each file; None: it cannot be seen.
Stamps = Mapping[Path, tuple[int, int, int] | None]


def stamps_of(files: TlsFiles) -> Stamps:
    return {one: stamp(one) for one in (files.certificate, files.key, files.authority)}


def log_changes(before: Stamps, now: Stamps) -> None:
    """Of files that are in use from now on."""
    new = [str(path) for path, value in now.items() if before[path] != value]
    if new:
        _log.info("changed, and in force now: %s", ", ".join(new))


def check_server(files: TlsFiles) -> Identity:
    """ConfigError when a coordinator cannot serve with these files."""
    identity = files.identity()
    if identity.role is not Role.COORDINATOR:
        raise ConfigError(
            f"{files.certificate}: is the certificate of {identity.role} "
            f"{identity.name!r}, a coordinator needs one of its own",
            hint="ldapslam fleet pki issue --role coordinator --name … --host …",
        )
    return identity


def check_client(files: TlsFiles, *roles: Role) -> Identity:
    """ConfigError when nobody in one of these roles can connect with these files."""
    identity = files.identity()
    if identity.role not in roles:
        wanted = " or ".join(roles)
        raise ConfigError(
            f"{files.certificate}: is the certificate of {identity.role} "
            f"{identity.name!r}, this needs one of role {wanted}",
            hint=f"ldapslam fleet pki issue --role {roles[0]} --name …",
        )
    return identity


def channel(address: str, files: TlsFiles | None) -> grpc.Channel:
    """A connection to a coordinator; nothing is sent yet."""
    target, options = grpc_target(address), list(CHANNEL_OPTIONS)
    if files is None or address.startswith("unix:"):
        return grpc.insecure_channel(target, options)
    return grpc.secure_channel(target, _client_credentials(files), options)


def aio_channel(address: str, files: TlsFiles | None) -> grpc.aio.Channel:
    """`channel`, for an event loop."""
    target, options = grpc_target(address), list(CHANNEL_OPTIONS)
    if files is None or address.startswith("unix:"):
        return grpc.aio.insecure_channel(target, options)
    return grpc.aio.secure_channel(target, _client_credentials(files), options)


def trusting_channel(address: str, authority_pem: bytes) -> grpc.Channel:
    """A connection of somebody who has no certificate yet, but knows the authority."""
    return grpc.secure_channel(
        grpc_target(address),
        grpc.ssl_channel_credentials(root_certificates=authority_pem),
        list(CHANNEL_OPTIONS),
    )


def _client_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=read_pem(files.authority),
        private_key=read_pem(files.key),
        certificate_chain=read_pem(files.certificate),
    )


def server_credentials(
    files: TlsFiles, *, asks_for_certificates: bool = True
) -> grpc.ServerCredentials:
    """Callers need a certificate of the same authority, but for enrolment."""
    reader = _ServerFiles(files, asks_for_certificates)
    return grpc.dynamic_ssl_server_credentials(
        reader.read(),
        reader.changed,
        require_client_authentication=asks_for_certificates,
    )


class _ServerFiles:
    def __init__(self, files: TlsFiles, asks_for_certificates: bool) -> None:
        self._files = files
        self._asks_for_certificates = asks_for_certificates
        self._lock = threading.Lock()
        self._stamps = stamps_of(files)

    def read(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        pair = read_pem(files.key), read_pem(files.certificate)
        roots = read_pem(files.authority) if self._asks_for_certificates else None
        return grpc.ssl_server_certificate_configuration([pair], roots)

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """The new files' configuration; None: unchanged."""
        with self._lock:
            stamps = stamps_of(self._files)
            if stamps == self._stamps:
                return None
            try:
                check_server(self._files)
                configuration = self.read()
            except ConfigError:
                # being written, or wrong: keep the last good ones
                return None
            if self._asks_for_certificates:  # not once more for enrolment
                log_changes(self._stamps, stamps)
            self._stamps = stamps
            return configuration
