# SPDX-License-Identifier: Apache-2.0
"""A slapd that takes SASL binds, and a Kerberos realm of its own for GSSAPI.

The users are people of the lab with passwords in clear, as SCRAM and DIGEST-MD5 need
them; whatever a mechanism calls a user, slapd maps it to the person's entry. The realm
lives in a temporary folder, on loopback, for one session of tests; where MIT's KDC is
not installed its tests are skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import ldap
import pytest

from ldapslam.lab.certificates import Authority, KeyPair
from ldapslam.lab.people import PEOPLE_DN
from support.lab import Lab
from support.replication import supplier_of

REALM = "LDAPSLAM.TEST"
PASSWORDS = {"user.0": b"one ring", "user.1": b"mellon, friend"}

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_SASL = (
    "sasl-secprops none",
    "sasl-auxprops slapd",
    "sasl-host localhost",
    "TLSVerifyClient allow",
    # uid=user.0,cn=localhost,cn=digest-md5,cn=auth and the like
    f'authz-regexp "uid=([^,@]+)[^,]*,(cn=[^,]+,)?cn=[^,]+,cn=auth" "uid=$1,{PEOPLE_DN}"',  # noqa: E501  one directive
    # the subject of a client's certificate
    f'authz-regexp "^cn=(user[.][0-9]+)$" "uid=$1,{PEOPLE_DN}"',
    # whoever runs the tests, over the Unix socket
    f'authz-regexp "gidNumber=.*,cn=peercred,cn=external,cn=auth" "uid=user.0,{PEOPLE_DN}"',  # noqa: E501
)


@dataclass(frozen=True)
class Realm:
    """Where the KDC's clients find it: variables for their environment."""

    environment: Mapping[str, str]


@dataclass(frozen=True)
class SaslLab:
    """A supplier alone, with SASL, and a certificate of user.0."""

    lab: Lab
    client: KeyPair


@pytest.fixture(scope="session")
def sasl_lab(
    slapd_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SaslLab]:
    clients = Authority(tmp_path_factory.mktemp("clients"))
    client = clients.issue("user.0", timedelta(hours=1))
    lines = (*_SASL, f"TLSCACertificateFile {clients.ca_file}")
    with Lab(entries=100, global_lines=lines) as lab:
        set_passwords(lab, PASSWORDS)
        yield SaslLab(lab, client)


def set_passwords(lab: Lab, passwords: Mapping[str, bytes]) -> None:
    """In clear, by uid of the lab's people."""
    with supplier_of(lab) as connection:
        for user, password in passwords.items():
            value = [(ldap.MOD_REPLACE, "userPassword", [password])]
            connection.modify_s(f"uid={user},{PEOPLE_DN}", value)


@pytest.fixture(scope="session")
def gssapi_lab(
    slapd_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """The same in a realm: user.0 has a ticket, slapd has the key of ldap/localhost."""
    folder = tmp_path_factory.mktemp("realm")
    with realm(folder) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        with Lab(entries=10, global_lines=_SASL) as lab:
            set_passwords(lab, PASSWORDS)
            yield lab


@contextlib.contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """A KDC with the principals above."""
    for program in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"):
        if shutil.which(program, path=_PATH) is None:
            pytest.skip(
                f"{program} is not installed (Debian: krb5-kdc krb5-admin-server"
                " krb5-user libsasl2-modules-gssapi-mit)"
            )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    environment = _write_configuration(folder, port)

    def call(*command: str, text: str = "") -> None:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            input=text,
            text=True,
            env={**os.environ, **environment, "PATH": _PATH},
        )

    call("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    call("kadmin.local", "-q", "addprinc -pw secret user.0")
    call("kadmin.local", "-q", "addprinc -randkey ldap/localhost")
    keytab = environment["KRB5_KTNAME"]
    call("kadmin.local", "-q", f"ktadd -k {keytab} ldap/localhost")
    with subprocess.Popen(
        ["krb5kdc", "-n"],
        env={**os.environ, **environment, "PATH": _PATH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as kdc:
        try:
            _wait_for(port, kdc)
            call("kinit", f"user.0@{REALM}", text="secret\n")
            yield Realm(environment)
        finally:
            kdc.terminate()


def _write_configuration(folder: Path, port: int) -> dict[str, str]:
    (folder / "krb5.conf").write_text(
        f"""
[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {REALM}
"""
    )
    (folder / "kdc.conf").write_text(
        f"""
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {REALM} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
    default = FILE:{folder}/krb5.log
"""
    )
    return {
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        "KRB5_KTNAME": str(folder / "keytab"),
        "KRB5CCNAME": f"FILE:{folder}/tickets",
        "KRB5RCACHETYPE": "none",
    }


def _wait_for(port: int, kdc: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and kdc.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    pytest.fail("the KDC did not start")
