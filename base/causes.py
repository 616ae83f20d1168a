# SPDX-License-Identifier: Apache-2.0
"""Why connections could not be made: the generator's causes, with the remedy of each,
and the target's. The engine tells them apart (agent/csrc/core/cause.h)."""

from __future__ import annotations

from typing import NamedTuple


class OwnCause(NamedTuple):
    words: str
    remedy: str


#: Faults of the directory, or of the network on its side.
TARGET_CAUSES = {
    "other_cause": "of another cause",
    "refused": "refused",
    "reset": "reset",
    "closed": "closed by the server",
    "no_answer": "not answered",
    "unreachable": "host unreachable",
    "tls_failed": "TLS failed",
    "bind_failed": "bind refused",
}
#: Faults of the generator's host or of the configuration.
OWN_CAUSES = {
    "no_port": OwnCause(
        "no local port was left (EADDRNOTAVAIL)",
        "widen net.ipv4.ip_local_port_range on the agent's host, use more agents, or "
        "keep connections longer",
    ),
    "no_descriptor": OwnCause(
        "no file descriptor was left (EMFILE, ENFILE)",
        "raise the agent's `ulimit -n` or systemd's LimitNOFILE, or fs.file-max",
    ),
    "no_memory": OwnCause(
        "the kernel had no memory for a socket (ENOBUFS, ENOMEM)",
        "give the agent's host more memory, or use fewer connections",
    ),
    "no_route": OwnCause(
        "there was no route to the server (ENETUNREACH, ENETDOWN)",
        "check the network of the agent's host",
    ),
    "not_permitted": OwnCause(
        "the agent's host did not permit it (EACCES, EPERM)",
        "check its firewall, and the mode of an ldapi:// socket",
    ),
    "no_credentials": OwnCause(
        "libldap or libsasl lacked what the bind needs",
        "check the agent's ticket, key or SASL plugin; a ticket must outlive the run",
    ),
}

#: In the order of the engine.
FAILURE_CAUSES = (*TARGET_CAUSES, *OWN_CAUSES)
