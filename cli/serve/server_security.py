# SPDX-License-Identifier: Apache-2.0
"""Certificates of the two commands that serve: `coordinator` and `agent`."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam.base.address import is_unix, split_host_port
from ldapslam.base.errors import ConfigError
from ldapslam.cli.options import FILE, FOLDER, Command, grouped, option
from ldapslam.cli.security import (
    Security,
    current_security,
    folder_files,
    security_options,
)
from ldapslam.transport.credentials import TlsFiles, check_client
from ldapslam.transport.enrolment import identity_files, join
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role
from ldapslam.transport.pki.token import JoinToken, read_token

if TYPE_CHECKING:
    from ldapslam.coordinator.security.enrolment import Enrolment

#: Where enrolment is served unless the token says otherwise.
ENROLMENT_PORT = 7401

PKI_VARIABLE = "LDAPSLAM_PKI"


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """What a coordinator serves with."""

    files: TlsFiles | None
    enrol: Enrolment | None
    insecure: bool


_add_server_options = grouped(
    "Certificates",
    option(
        "--pki DIR",
        "The authority's folder (`ldapslam fleet pki init`): takes from it the "
        "coordinator's certificate and the revoked ones.",
        envvar=PKI_VARIABLE,
        show_envvar=True,
        type=FOLDER,
    ),
    option(
        "--tls-crl FILE",
        "Revoked certificates (a CRL as PEM), with --tls; read again when it changes.",
        envvar="LDAPSLAM_TLS_CRL",
        show_envvar=True,
        type=FILE,
    ),
    option(
        "--enrol-listen HOST:PORT",
        "Where agents get a certificate for a join token; needs --pki. "
        f"Usually port {ENROLMENT_PORT}.",
    ),
)


def server_security_options(command: Command) -> Command:
    """The coordinator's options; the command has them as `security`."""

    @functools.wraps(command)
    def with_security(
        *, pki: Path | None, tls_crl: Path | None, enrol_listen: str | None, **rest: Any
    ) -> Any:
        security = _server_security(current_security(), pki, tls_crl, enrol_listen)
        return command(security=security, **rest)

    return security_options(_add_server_options(with_security))  # type: ignore[return-value]


def _server_security(
    chosen: Security, pki: Path | None, crl: Path | None, enrol_listen: str | None
) -> ServerSecurity:
    named = chosen.named  # the user's own certificate is no coordinator's
    if pki is None:
        if enrol_listen is not None:
            raise ConfigError(
                "--enrol-listen needs --pki: enrolment signs certificates",
                hint="give the folder that `ldapslam fleet pki init` made",
            )
        if crl is not None and named is None:
            raise ConfigError("--tls-crl needs --tls")
        files = named and replace(named, revoked=crl)
        return ServerSecurity(files, None, chosen.insecure)
    if crl is not None:
        raise ConfigError("--pki has a list of the revoked: leave out --tls-crl")
    authority = Authority(pki)
    files = replace(named or _own_files(authority), revoked=authority.revoked_file)
    enrol = None
    if enrol_listen is not None:
        split_host_port(enrol_listen)
        if is_unix(enrol_listen):
            raise ConfigError("--enrol-listen: expected HOST:PORT")
        from ldapslam.coordinator.security.enrolment import Enrolment

        enrol = Enrolment(enrol_listen, authority)
    return ServerSecurity(files, enrol, chosen.insecure)


def _own_files(authority: Authority) -> TlsFiles:
    """The coordinator's certificate in the authority's folder: there must be one."""
    now_utc = datetime.now(UTC)
    names = {
        one.identity.name
        for one in authority.issued()
        if one.identity.role is Role.COORDINATOR and one.state(now_utc) == "valid"
    }
    if len(names) != 1:
        found = f"those of {', '.join(sorted(names))}" if names else "none"
        raise ConfigError(
            f"{authority.folder}: expected one coordinator's certificate, found "
            f"{found}",
            hint="choose with --tls DIR/issued/NAME"
            if names
            else "ldapslam fleet pki issue --role coordinator --name … --host …",
        )
    return folder_files(authority.bundle(names.pop()))


join_option = option(
    "--join join_file FILE",
    "Join token (`ldapslam fleet pki token`): gets a certificate when there is none "
    "yet, and keeps it next to the spool.",
    type=FILE,
)


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """An agent's name, spool and certificate."""

    name: str
    spool: Path
    files: TlsFiles | None
    insecure: bool
    #: Has, or will have, a certificate by token, which it renews.
    has_joined: bool = False
    token: JoinToken | None = None

    def own_files(self, join_file: Path | None) -> tuple[str, ...]:
        """What the agent keeps from all jobs, whatever it allows."""
        key = None if self.files is None else self.files.key
        own = (self.spool, key, join_file)
        return tuple(str(path.absolute()) for path in own if path is not None)

    def check(self) -> None:
        """ConfigError when no agent can connect with what is there. A join token gets
        what is not."""
        if self.files is None:
            return
        if self.token is not None and not self.files.certificate.exists():
            return
        identity = check_client(self.files, Role.AGENT)
        if identity.name != self.name:
            raise ConfigError(
                f"--name {self.name!r}: the certificate is that of {identity.name!r}",
                hint="leave out --name, or use that agent's certificate",
            )

    def enter(self, coordinator: str) -> None:
        """Get the certificate, and check it; ConfigError, FleetError."""
        if self.token is not None and self.files is not None:
            host = split_host_port(coordinator)[0]
            bracketed = f"[{host}]" if ":" in host else host
            address = self.token.enrol or f"{bracketed}:{ENROLMENT_PORT}"
            join(self.token, address, self.files)
        self.check()


def agent_identity(
    coordinator: str,
    name: str | None,
    host_name: str,
    spool: Path | None,
    spools: Path,
    join_file: Path | None,
) -> AgentIdentity:
    """The agent's name is its token's, its certificate's, --name, or its host's."""
    chosen = current_security()
    insecure, token, has_joined = chosen.insecure, None, False
    files: TlsFiles | None
    if is_unix(coordinator):
        name, files = name or host_name, None
    elif join_file is not None:
        token, insecure, has_joined = read_token(join_file), False, True
        _check_token(chosen, name, token)
        name = token.name
        files = identity_files(spool or spools / name)
    elif chosen.named is not None:
        files = chosen.files_for(coordinator)
        name = name or chosen.named.identity().name
    else:
        named = name or host_name
        joined = identity_files(spool or spools / named)
        if joined.certificate.exists():
            files = Security(joined, insecure=insecure).files_for(coordinator)
            name, insecure, has_joined = named, False, True
        else:
            files = chosen.files_for(coordinator)
            name = name or (host_name if files is None else files.identity().name)
    return AgentIdentity(
        name, spool or spools / name, files, insecure, has_joined, token
    )


def _check_token(chosen: Security, name: str | None, token: JoinToken) -> None:
    if chosen.insecure or chosen.named is not None:
        raise ConfigError(
            "--join gets a certificate: neither --tls nor --insecure goes with it"
        )
    if token.role is not Role.AGENT:
        raise ConfigError(f"the join token is for an {token.role}, not for an agent")
    if name is not None and name != token.name:
        raise ConfigError(
            f"--name {name!r}: the join token is for {token.name!r}",
            hint="leave out --name",
        )
