# SPDX-License-Identifier: Apache-2.0
"""The other clients, from their packages: the same searches over as many connections.

ldclt is 389-ds-base's (Debian); searchrate is in UnboundID's LDAP SDK, which Maven gets
(Debian: maven default-jre-headless); python-ldap is a dependency of this project. Each
is run as cheaply as its options allow: no bind, one line of output in ten seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import ldap
from bare_clients import Missing
from bench_jobs import ATTRIBUTES, BASE
from processes import Server

CONNECTIONS = 16
#: From the first search on: so long takes the Java machine to compile what is hot.
WARM_UP_S = {"searchrate": 8.0, "ldclt": 1.0, "python_ldap": 1.0}
_SDK = "com.unboundid:unboundid-ldapsdk:7.0.2"


def command(tool: str, server: Server, folder: Path) -> Sequence[str]:
    """How to run it, for longer than any measurement; Missing if that cannot be."""
    return {"searchrate": _searchrate, "ldclt": _ldclt, "python_ldap": _python_ldap}[
        tool
    ](server, folder)


def _searchrate(server: Server, folder: Path) -> Sequence[str]:
    java = _program("java", "default-jre-headless")
    options = {
        "--hostname": "127.0.0.1",
        "--port": server.address,
        "--baseDN": BASE,
        "--scope": "sub",
        "--filter": "(uid=user.[100000-999999])",
        "--numThreads": str(CONNECTIONS),
        "--intervalDuration": "10",
        "--numIntervals": "60",
    }
    attributes = [part for name in ATTRIBUTES for part in ("--attribute", name)]
    pairs = [part for pair in options.items() for part in pair]
    return [java, "-jar", str(_sdk(folder)), "searchrate", *pairs, *attributes]


def _sdk(folder: Path) -> Path:
    """UnboundID's LDAP SDK, by way of Maven's own cache."""
    jar = folder / "{1}-{2}.jar".format(*_SDK.split(":"))
    if not jar.exists():
        maven = _program("mvn", "maven")
        copied = subprocess.run(
            [
                maven,
                "--quiet",
                "--batch-mode",
                "dependency:copy",
                f"-Dartifact={_SDK}",
                f"-DoutputDirectory={folder}",
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if not jar.exists():
            reason = (copied.stdout + copied.stderr).strip().splitlines()[:1]
            raise Missing(f"Maven cannot get {_SDK}: {reason}")
    return jar


def _ldclt(server: Server, folder: Path) -> Sequence[str]:
    options = {
        "-h": "127.0.0.1",
        "-p": server.address,
        "-b": BASE,
        "-e": f"esearch,random,attrlist={':'.join(ATTRIBUTES)}",
        "-f": "uid=user.XXXXXX",
        "-r": "100000",
        "-R": "999999",
        "-n": str(CONNECTIONS),
        "-N": "60",
    }
    pairs = [part for pair in options.items() for part in pair]
    return [_program("ldclt", "389-ds-base"), *pairs]


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not installed (Debian: {package})")
    return path


def _python_ldap(server: Server, folder: Path) -> Sequence[str]:
    this = str(Path(__file__).with_name("engine_cost.py"))
    return [sys.executable, this, "--child=python-ldap", server.uri]


def python_ldap_child(uri: str) -> None:
    """One thread with a request in flight on each connection: half the cost of a thread
    for each, which wait for each other and for the interpreter's lock."""
    connections = [ldap.initialize(uri) for _ in range(CONNECTIONS)]

    def search(connection: ldap.ldapobject.SimpleLDAPObject, number: int) -> int:
        message_id: int = connection.search_ext(
            BASE, ldap.SCOPE_SUBTREE, f"(uid=user.{number})", list(ATTRIBUTES)
        )
        return message_id

    in_flight = [search(connection, 100_000) for connection in connections]
    for number in cycle(range(100_000, 1_000_000)):
        slot = number % CONNECTIONS
        connections[slot].result(in_flight[slot])
        in_flight[slot] = search(connections[slot], number)
