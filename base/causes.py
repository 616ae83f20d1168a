# SPDX-License-Identifier: Apache-2.0
"""Why connections could not be made, or were lost: the generator's causes, with the
remedy of each, and the target's. The engine tells them apart
(agent/csrc/core/cause.h)."""

from __future__ import annotations

from collections.abc import Mapping
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
FAILURE_CAUSES = {
    **TARGET_CAUSES,
    **{name: own.words for name, own in OWN_CAUSES.items()},
}
#: Why connections were lost, in the order of the engine.
LOSS_CAUSES = {
    "lost_otherwise": "of another cause",
    "lost_idle": "closed by the server while idle",
    "lost_closed": "closed by the server with requests in flight",
    "lost_reset": "reset with requests in flight",
    "lost_silent": "given up after time-outs",
    "lost_notice": "after a notice of disconnection",
    "lost_invalid": "after an invalid response",
}
#: Losses that leave requests without a response.
WITH_REQUESTS = {
    name: words for name, words in LOSS_CAUSES.items() if name != "lost_idle"
}


def causes_text(counters: Mapping[str, int], words: Mapping[str, str]) -> str:
    """How many of each cause there were, for people; `words` are FAILURE_CAUSES or
    LOSS_CAUSES."""
    found = {text: counters.get(name, 0) for name, text in words.items()}
    return ", ".join(f"{number:,} {text}" for text, number in found.items() if number)
