# SPDX-License-Identifier: Apache-2.0
"""An LDIF for 389-DS, from any: every server that loads it is a replica of the others.

Total initialisation over the network is slow, so servers are made equal beforehand:
each entry has an nsUniqueId, and behind the suffix is the entry of the replica update
vector (RUV). Servers with the same generation there, and no changes yet, go on with
incremental updates.
"""

from __future__ import annotations

import time
from pathlib import Path

from ldapslam.lab.ldif_lines import dn_of, records

RUV_ID = "ffffffff-ffffffff-ffffffff-ffffffff"

# slapd's, unknown to 389-DS or its own to make; entryUUID is kept.
_FOREIGN = (
    b"structuralobjectclass:",
    b"entrycsn:",
    b"contextcsn:",
    b"nsuniqueid:",
)
_ACCESS = (
    b'aci: (targetattr!="userPassword")(version 3.0; acl "all read";'
    b' allow (read, search, compare) userdn="ldap:///anyone";)\n'
    b'aci: (targetattr="userPassword")(version 3.0; acl "own password";'
    b' allow (write) userdn="ldap:///self";)\n'
)


def write_replicated(source: Path, target: Path, supplier_uris: list[str]) -> None:
    """Write what servers load; `supplier_uris` in the order of replica ids, none
    without replication."""
    with target.open("wb", buffering=1 << 20) as output:
        for number, record in enumerate(records(source)):
            kept = [one for one in record if not one.lower().startswith(_FOREIGN)]
            kept.append(b"nsUniqueId: 6c646170-736c616d-00000000-%08x" % number)
            output.write(b"\n".join(kept) + b"\n")
            if number == 0:
                if not any(one.lower().startswith(b"aci:") for one in record):
                    output.write(_ACCESS)
                if supplier_uris:
                    output.write(b"\n" + _ruv(dn_of(record), supplier_uris))
            output.write(b"\n")


def _ruv(suffix: str, supplier_uris: list[str]) -> bytes:
    # A change number: seconds, count, replica id, count; all of them hexadecimal.
    generation = f"{int(time.time()):08x}000000010000"
    lines = [
        f"dn: nsuniqueid={RUV_ID},{suffix}",
        "objectClass: top",
        "objectClass: nsTombstone",
        "objectClass: extensibleobject",
        f"nsds50ruv: {{replicageneration}} {generation}",
        *(
            f"nsds50ruv: {{replica {number} {uri}}}"
            for number, uri in enumerate(supplier_uris, 1)
        ),
        f"nsUniqueId: {RUV_ID}",
    ]
    return "".join(f"{line}\n" for line in lines).encode()
