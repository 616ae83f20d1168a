# SPDX-License-Identifier: Apache-2.0
"""Hosts of a test's own: network namespaces on one bridge, with links to break.

    host 10.213.n.2 ---veth---.
    host 10.213.n.3 ---veth---+--- bridge, in a namespace of its own
    host 10.213.n.4 ---veth---'

Faults are silent ones: packets vanish, nothing is refused. Needs root, with the
capabilities to administer networks and mounts, `ip` and, for the faults, `nft`; where
those are missing, tests skip with the reason, in CI they fail. Nothing outside of the
namespaces is touched, and they are gone when the test is over.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest

_IP_HINT = "`ip` cannot be found: `apt-get install iproute2`"
_NFT_HINT = "`nft` cannot be found: `apt-get install nftables`"
_numbers = itertools.count()


class NetworkUnavailable(Exception):
    """This machine does not let the test make namespaces; says why."""


class Network:
    """Hosts by name; a context manager."""

    def __init__(self, *hosts: str) -> None:
        # names are the kernel's own: unique among tests that run side by side
        self._prefix = f"slam{os.getpid()}-{next(_numbers)}"
        self._bridge = f"{self._prefix}-bridge"
        self._names = {host: f"{self._prefix}-{host}" for host in hosts}
        self._addresses = {
            host: f"10.213.0.{number}" for number, host in enumerate(hosts, 2)
        }

    def __enter__(self) -> Network:
        if shutil.which("ip") is None:
            raise NetworkUnavailable(_IP_HINT)
        if shutil.which("nft") is None:
            raise NetworkUnavailable(_NFT_HINT)
        try:
            self._make()
        except NetworkUnavailable:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self) -> None:
        _run("ip", "netns", "add", self._bridge)
        in_bridge = ("ip", "-n", self._bridge)
        _run(*in_bridge, "link", "add", "bridge", "type", "bridge")
        _run(*in_bridge, "link", "set", "bridge", "up")
        for number, (host, name) in enumerate(self._names.items()):
            _run("ip", "netns", "add", name)
            port = f"port{number}"
            pair = ("type", "veth", "peer", "name", "eth0", "netns", name)
            _run(*in_bridge, "link", "add", port, *pair)
            _run(*in_bridge, "link", "set", port, "master", "bridge", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            address = f"{self._addresses[host]}/24"
            _run("ip", "-n", name, "address", "add", address, "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")

    def close(self) -> None:
        """What still runs in a namespace keeps it alive, without a name."""
        for name in (*self._names.values(), self._bridge):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def address(self, host: str) -> str:
        return self._addresses[host]

    def command(self, host: str) -> list[str]:
        """What to put before a command to run it on the host; the process is its."""
        return ["nsenter", f"--net=/run/netns/{self._names[host]}", "--"]

    def cut(self, host: str) -> None:
        """Whatever the host sends or would receive vanishes."""
        self._rules(host, "iifname eth0 drop", "oifname eth0 drop")

    def lose(self, host: str, percent: int) -> None:
        """That part of the packets vanishes, in each direction."""
        self._rules(
            host,
            f"iifname eth0 numgen random mod 100 < {percent} drop",
            f"oifname eth0 numgen random mod 100 < {percent} drop",
        )

    def pull(self, host: str) -> None:
        """Take the cable out; the host itself sees its link go down."""
        port = list(self._names).index(host)
        _run("ip", "-n", self._bridge, "link", "set", f"port{port}", "down")

    def plug(self, host: str) -> None:
        port = list(self._names).index(host)
        _run("ip", "-n", self._bridge, "link", "set", f"port{port}", "up")

    def mend(self, host: str) -> None:
        """The end of `cut` and `lose`."""
        self._nft(host, "delete table inet faults\n")

    def dropped(self, host: str) -> int:
        """Packets that the current rules let vanish."""
        shown = subprocess.run(
            [*self.command(host), "nft", "list", "table", "inet", "faults"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        return sum(
            int(shown[place + 1])
            for place, word in enumerate(shown)
            if word == "packets"
        )

    def _rules(self, host: str, receiving: str, sending: str) -> None:
        counted = [
            rule.replace(" drop", " counter drop") for rule in (receiving, sending)
        ]
        self._nft(
            host,
            "table inet faults {\n"
            f" chain in {{ type filter hook input priority 0; {counted[0]}; }}\n"
            f" chain out {{ type filter hook output priority 0; {counted[1]}; }}\n"
            "}\n",
        )

    def _nft(self, host: str, rules: str) -> None:
        _run(*self.command(host), "nft", "-f", "-", text=rules)


def in_small_file_system(folder: str, size_bytes: int) -> list[str]:
    """What to put before a command to give it a `folder` with so little space, which
    nobody else sees but through /proc/PID/root."""
    mount = f'mount -t tmpfs -o size={size_bytes} tmpfs "$1" && shift && exec "$@"'
    unshare = ("unshare", "--mount", "--propagation", "private")
    return [*unshare, "sh", "-c", mount, "sh", folder]


def in_time_namespace(offset_s: int) -> list[str]:
    """What to put before a command whose CLOCK_MONOTONIC is ahead by so much."""
    return ["unshare", "--time", f"--monotonic={offset_s}", "--"]


def need(*probe: str) -> None:
    """Skip the test, or fail it in CI, when the command does not work here."""
    try:
        _run(*probe)
    except NetworkUnavailable as error:
        refuse(str(error))


def refuse(reason: str) -> NoReturn:
    """Skip, with the reason; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _run(*command: str, text: str | None = None) -> None:
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=30
        )
    except FileNotFoundError as error:
        raise NetworkUnavailable(f"{command[0]!r} cannot be found") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise NetworkUnavailable(
            f"`{' '.join(command)}` ended with status {done.returncode}: {said} "
            "(these tests need root, with CAP_NET_ADMIN and CAP_SYS_ADMIN)"
        )


def network_of(*hosts: str) -> Iterator[Network]:
    """For fixtures: the network, or the test is skipped."""
    try:
        network = Network(*hosts).__enter__()
    except NetworkUnavailable as error:
        refuse(str(error))
        raise
    try:
        yield network
    finally:
        network.close()


def free_port(host: str = "127.0.0.1") -> int:
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
        return port
