# SPDX-License-Identifier: Apache-2.0
"""A real 389 Directory Server in a temporary folder: no systemd, no root, no dscreate.

`dscreate` installs for the whole host and asks systemd to start what it made. What it
writes is a dse.ldif from the package's own template, and that is done here, with every
path inside the folder of a lab's keeper process (which ends the server and removes the
folder, whatever becomes of the tests). The tree is that of `ldapslam.lab`, people and
administrator by the same names, so that one job file serves both servers.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pwd
import re
import secrets
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import ldap
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from ldapslam.lab import people
from ldapslam.lab.certificates import Authority
from ldapslam.lab.keeper import Keeper
from ldapslam.lab.slapd import reserve_ports

DS389_ENTRIES = 1_000

_TEMPLATES = Path("/usr/share/dirsrv/data")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_TIMEOUT_S = 60.0
_NOFILE = 8_192

# slapd's, unknown to 389-DS; entryUUID is kept.
_FOREIGN = ("structuralObjectClass:", "entryCSN:", "contextCSN:")
_ACCESS = (
    'aci: (targetattr!="userPassword")(version 3.0; acl "all read";'
    ' allow (read, search, compare) userdn="ldap:///anyone";)\n'
    'aci: (targetattr="userPassword")(version 3.0; acl "own password";'
    ' allow (write) userdn="ldap:///self";)\n'
)

# /etc/dirsrv is closed to ordinary users; the server wants these three to be there.
_OWN_FILES = {
    "schema/99user.ldif": "dn: cn=schema\nobjectClass: top\n"
    "objectClass: ldapSubentry\nobjectClass: subschema\ncn: schema\n",
    "slapd-collations.conf": "",
    "certmap.conf": "certmap default default\n",
}

# cn=snmp,cn=monitor by the names of the RFC's operations.
_COUNTERS = {
    "search": "searchops",
    "compare": "compareops",
    "add": "addentryops",
    "delete": "removeentryops",
    "modify": "modifyentryops",
    "modify_dn": "modifyrdnops",
}


# Of the access log: the kinds without a counter of their own. Binds have some, but an
# anonymous one counts in two of them.
_LOGGED = {"BIND": "bind", "UNBIND": "unbind", "ABANDON": "abandon", "EXT": "extended"}
_LOG_LINE = re.compile(r" op=\d+ (BIND|UNBIND|ABANDON|EXT)\b")


def missing_programs() -> str | None:
    """Why there is no 389-DS here, or None."""
    for program, package in (
        ("ns-slapd", "389-ds-base"),
        ("certutil", "libnss3-tools"),
        ("pk12util", "libnss3-tools"),
    ):
        if shutil.which(program, path=_PATH) is None:
            return f"{program} cannot be found: `apt-get install {package}`"
    if not (_TEMPLATES / "template-dse.ldif").exists():
        return f"{_TEMPLATES} has no template-dse.ldif: `apt-get install 389-ds-base`"
    return None


class Ds389:
    """One server with `entries` people; a context manager."""

    def __init__(self, entries: int = DS389_ENTRIES) -> None:
        self.entries = entries
        self.admin_dn = people.ADMIN_DN
        self.people_dn = people.PEOPLE_DN
        self._password = secrets.token_urlsafe(18)
        self._own: Counter[str] = Counter()

    def __enter__(self) -> Ds389:
        self._keeper = Keeper()
        self.folder = self._keeper.folder
        self._config = self.folder / "config"
        #: Of the authority that signed the server's certificate.
        self.ca_file = self.folder / "ca.pem"
        self.admin_password_file = self.folder / "admin-password"
        try:
            self._make_files()
            self._load()
            self._start()
        except BaseException:
            self._keeper.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.close()

    # -- asking ------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Operations since the start by kind, ours excluded.

        The monitor's figures; those of the access log for the kinds that the monitor
        has in its total alone (which now and then counts the end of a TLS connection
        too).
        """
        with self._bound() as connection:
            ((_, found),) = connection.search_s("cn=snmp,cn=monitor", ldap.SCOPE_BASE)
            self._own["search"] += 1  # an operation counts when it begins
            logged = self._logged()
            counted = {kind: int(found[name][0]) for kind, name in _COUNTERS.items()}
            own = self._own.copy()
        counts = {kind: logged[kind] for kind in _LOGGED.values()} | counted
        return {kind: counts[kind] - own[kind] for kind in counts}

    def search(
        self, base_dn: str, scope: int, attributes: list[str]
    ) -> dict[str, dict[str, list[bytes]]]:
        """All entries there, by their DN, as the administrator sees them."""
        with self._bound() as connection:
            found = connection.search_s(base_dn, scope, "(objectClass=*)", attributes)
            self._own["search"] += 1
        return dict(found)

    def _logged(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        with (self.folder / "log" / "access").open(errors="replace") as log:
            for line in log:
                if (match := _LOG_LINE.search(line)) is not None:
                    counts[_LOGGED[match[1]]] += 1
        return counts

    @contextmanager
    def _bound(self) -> Iterator[Any]:
        """A connection bound as the administrator; bind and unbind are tallied."""
        connection = ldap.initialize(self.uri)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 5)
        connection.set_option(ldap.OPT_TIMEOUT, 30)
        has_bound = False
        try:
            connection.simple_bind_s(self.admin_dn, self._password)
            self._own["bind"] += 1
            has_bound = True
            yield connection
        finally:
            connection.unbind_s()
            self._own["unbind"] += has_bound

    # -- set-up ------------------------------------------------------------------------

    def _make_files(self) -> None:
        for name in ("config/schema", "lock", "tmp", "ldif", "bak", "run", "log", "db"):
            (self.folder / name).mkdir(parents=True)
        self.admin_password_file.touch(mode=0o600)
        self.admin_password_file.write_text(self._password)
        self._ports = reserve_ports(2)
        port, secure_port = (port.getsockname()[1] for port in self._ports)
        self.uri = f"ldap://127.0.0.1:{port}"
        self.ldaps_uri = f"ldaps://127.0.0.1:{secure_port}"
        self.ldapi_uri = f"ldapi://{quote(str(self.folder / 'ldapi'), safe='')}"
        dse = self._config / "dse.ldif"
        dse.touch(mode=0o600)
        dse.write_text(self._configuration(port, secure_port))
        for name, text in _OWN_FILES.items():
            (self._config / name).write_text(text)
        self._make_certificates()

    def _configuration(self, port: int, secure_port: int) -> str:
        values = {
            "schema_dir": self._config / "schema",
            "cert_dir": self._config,
            "config_dir": self._config,
            "bak_dir": self.folder / "bak",
            "inst_dir": self.folder,
            "db_home_dir": self.folder / "db",
            "fqdn": "localhost",
            "ds_port": port,
            "ds_user": pwd.getpwuid(os.getuid()).pw_name,
            "rootdn": self.admin_dn,
            "ds_passwd": _hashed(self._password),
            "ldapi_enabled": "on",
            "ldapi": self.folder / "ldapi",
            "ldapi_autobind": "off",
            "ds_suffix": people.SUFFIX,
            "ds_bename": "userRoot",
            "db_lib": "bdb",
        }

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            return str(values.get(name, self.folder / name.removesuffix("_dir")))

        text = (_TEMPLATES / "template-dse.ldif").read_text().rstrip()
        text += "\n\n" + (_TEMPLATES / "template-suffix-db.ldif").read_text()
        text = re.sub("%([a-z_]+)%", fill, text)
        text = _extended(
            text,
            "cn=config",
            "nsslapd-security: on",
            f"nsslapd-securePort: {secure_port}",
            "nsslapd-sizelimit: -1",
            # A bind is to write nothing.
            "nsslapd-enable-upgrade-hash: off",
            # Each line at once in one file: counts() reads it.
            "nsslapd-accesslog-logbuffering: off",
            "nsslapd-accesslog-maxlogsize: -1",
        )
        # Sized for a small tree: by itself it takes gigabytes, and seconds to do so.
        text = _extended(
            text,
            "cn=userRoot,cn=ldbm database,cn=plugins,cn=config",
            "nsslapd-cachememsize: 134217728",
            "nsslapd-dncachememsize: 33554432",
        )
        return _extended(
            text,
            "cn=config,cn=ldbm database,cn=plugins,cn=config",
            "nsslapd-cache-autosize: 0",
            "nsslapd-dbcachesize: 67108864",
            "nsslapd-import-cache-autosize: 0",
            "nsslapd-import-cachesize: 16777216",
            "nsslapd-lookthroughlimit: -1",
            "nsslapd-db-durable-transaction: off",
        )

    def _make_certificates(self) -> None:
        """A key database of NSS with a certificate that `ca_file` vouches for."""
        pair = Authority(self.folder).issue("server", timedelta(days=30))
        bundle = self.folder / "server.p12"
        bundle.write_bytes(_pkcs12(pair.certificate_file, pair.key_file))
        database = f"sql:{self._config}"
        self._run("certutil", "-N", "-d", database, "--empty-password")
        self._run(
            *("certutil", "-A", "-d", database, "-n", "CA", "-t", "CT,,"),
            *("-i", str(self.ca_file)),
        )
        self._run("pk12util", "-d", database, "-i", str(bundle), "-W", "", "-K", "")
        (self._config / "pin.txt").write_text("Internal (Software) Token:\n")

    def _run(self, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=_PATH)
        assert path is not None
        subprocess.run(
            [path, *arguments], check=True, capture_output=True, timeout=_TIMEOUT_S
        )

    def _load(self) -> None:
        source, ldif = self.folder / "people.ldif", self.folder / "ldif" / "tree.ldif"
        people.write_ldif(source, self.entries)
        head = f"dn: {people.SUFFIX}\n"
        with source.open() as lines, ldif.open("w") as output:
            for line in lines:
                if not line.startswith(_FOREIGN):
                    output.write(line + _ACCESS if line == head else line)
        source.unlink()
        argv = [self._program, "ldif2db", "-D", str(self._config)]
        argv += ["-n", "userRoot", "-i", str(ldif)]
        log = self.folder / "import.log"
        pid = self._keeper.start("import", argv, log, _NOFILE)
        status = self._keeper.wait("import", pid, _TIMEOUT_S)
        if status != 0:
            raise RuntimeError(f"ldif2db: {status}: {log.read_text()[-2000:]}")

    @property
    def _program(self) -> str:
        path = shutil.which("ns-slapd", path=_PATH)
        assert path is not None
        return path

    def _start(self) -> None:
        log = self.folder / "ns-slapd.log"
        argv = [self._program, "-D", str(self._config), "-d", "0"]
        argv += ["-i", str(self.folder / "run" / "pid")]
        for port in self._ports:
            port.close()
        self._keeper.start("ns-slapd", argv, log, _NOFILE)
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                with self._bound():
                    return
            except ldap.SERVER_DOWN:
                if self._keeper.status("ns-slapd") is not None:
                    raise RuntimeError(f"ns-slapd: {log.read_text()[-2000:]}") from None
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(0.02)


def _hashed(password: str) -> str:
    """{SSHA}: what a bind costs is to be the directory's time, not PBKDF2's."""
    salt = secrets.token_bytes(8)
    digest = hashlib.sha1(password.encode() + salt).digest()
    return "{SSHA}" + base64.b64encode(digest + salt).decode()


def _extended(ldif: str, dn: str, *lines: str) -> str:
    """The LDIF with lines added to the entry `dn`, which is in it once."""
    head = f"dn: {dn}\n"
    assert ldif.count(head) == 1, dn
    return ldif.replace(head, head + "".join(f"{line}\n" for line in lines))


def _pkcs12(certificate_file: Path, key_file: Path) -> bytes:
    key = load_pem_private_key(key_file.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return pkcs12.serialize_key_and_certificates(
        b"Server-Cert", key, certificate, None, NoEncryption()
    )


@pytest.fixture(scope="session")
def ds389_installed() -> None:
    """Skip the test without 389-DS, with the reason; in CI that is a failure."""
    reason = missing_programs()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def ds389(ds389_installed: None) -> Iterator[Ds389]:
    """A server with 1,000 people, shared by the whole session: leave it as it was."""
    with Ds389() as server:
        yield server
