# SPDX-License-Identifier: Apache-2.0
"""An agent's key and certificate, in a folder beside the spool.

Got with a join token, and renewed; the key is made there and never leaves it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.base.files import make_private_folder, write_private
from ldapslam.proto import enrolment_pb2 as pb
from ldapslam.proto.enrolment_pb2_grpc import (
    CertificateServiceStub,
    EnrolmentServiceStub,
)
from ldapslam.transport.codec import readable, rpc_errors
from ldapslam.transport.credentials import TlsFiles, trusting_channel
from ldapslam.transport.pki.certificate import (
    Identity,
    build_request,
    certificate_pem,
    identity_of,
    key_pem,
    new_key,
    public_key_bytes,
    read_certificate,
    read_key,
)
from ldapslam.transport.pki.token import JoinToken

_log = logging.getLogger(__name__)

_CALL_TIMEOUT_S = 15.0
#: Ratio of a certificate's life.
_RENEWED_AFTER = 2 / 3
#: Between attempts and checks of the clock, which may be set.
_LOOK_EVERY_S = 600.0


def identity_files(spool: Path) -> TlsFiles:
    folder = spool.with_name(f"{spool.name}.tls")
    return TlsFiles(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")


def join(token: JoinToken, address: str, files: TlsFiles) -> None:
    """Get a certificate for a new key, unless there is one of this token.

    Another token is there for a reason, such as a revocation. FleetError when the
    coordinator refuses or is away; ConfigError when the files are another agent's.
    """
    if files.certificate.exists():
        identity = files.identity()
        if identity.name != token.name:
            raise ConfigError(
                f"{files.certificate.parent}: has the certificate of "
                f"{identity.name!r}, the join token is for {token.name!r}",
                hint="give another --spool, or remove that folder",
            )
        if _is_used(token, files):
            _log.info("joined already, as %s", identity.name)
            return
    make_private_folder(files.key.parent)
    key = new_key()
    request = pb.EnrolRequest(
        token=token.proof, request_pem=build_request(key, token.name)
    )
    with (
        rpc_errors(address),
        trusting_channel(address, token.authority_pem) as channel,
    ):
        stub = EnrolmentServiceStub(channel)  # type: ignore[no-untyped-call]
        reply = stub.Enrol(request, timeout=_CALL_TIMEOUT_S)
    identity = _checked(reply, key.public_key(), token.name)
    # never a key with the certificate of another one
    files.certificate.unlink(missing_ok=True)
    write_private(files.key, key_pem(key))
    write_private(files.authority, token.authority_pem)
    write_private(_token_file(files), token.token_id.encode())
    write_private(files.certificate, reply.certificate_pem)
    _log.info("joined as %s %s", identity.role, identity.name)


def _token_file(files: TlsFiles) -> Path:
    """The id of the token that was used; it opens nothing."""
    return files.certificate.with_name("token-id")


def _is_used(token: JoinToken, files: TlsFiles) -> bool:
    try:
        return _token_file(files).read_text() == token.token_id
    except FileNotFoundError:
        return True  # nothing says that it is another one


async def keep_renewed(channel: Any, address: str, files: TlsFiles) -> None:
    """Renew the certificate when it is due, until cancelled. The next connection uses
    it."""
    stub = CertificateServiceStub(channel)  # type: ignore[no-untyped-call]
    while True:
        try:
            certificate = await asyncio.to_thread(read_certificate, files.certificate)
            identity = identity_of(certificate)
            life = identity.not_after_utc - identity.not_before_utc
            due_utc = identity.not_before_utc + life * _RENEWED_AFTER
            if datetime.now(UTC) >= due_utc:
                await _renew(stub, address, identity.name, files)
        except LdapSlamError as error:
            _log.warning("the certificate is not renewed: %s", error)
        await asyncio.sleep(_LOOK_EVERY_S)


async def _renew(stub: Any, address: str, name: str, files: TlsFiles) -> None:
    key = await asyncio.to_thread(read_key, files.key)
    with rpc_errors(address):
        answer = await stub.Renew(
            pb.RenewRequest(request_pem=build_request(key, name)),
            timeout=_CALL_TIMEOUT_S,
        )
    reply: pb.EnrolReply = readable(answer, address)
    identity = _checked(reply, key.public_key(), name)
    await asyncio.to_thread(write_private, files.certificate, reply.certificate_pem)
    _log.info("certificate renewed until %s", identity.not_after_utc)


def _checked(reply: pb.EnrolReply, own: PublicKeyTypes, name: str) -> Identity:
    try:
        certificate = x509.load_pem_x509_certificate(reply.certificate_pem)
        is_ours = certificate_pem(certificate) == reply.certificate_pem
    except ValueError as error:
        raise ConfigError("the coordinator's answer is no certificate") from error
    identity = identity_of(certificate)
    ours = public_key_bytes(own)
    theirs = public_key_bytes(certificate.public_key())
    if not is_ours or ours != theirs or identity.name != name:
        raise ConfigError("the coordinator's answer is a certificate for another key")
    return identity
