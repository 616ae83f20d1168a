# SPDX-License-Identifier: Apache-2.0
"""An LDIF for 389-DS, from any: every server that loads it is a replica of the others.

Total initialisation over the network is slow, so servers are made equal beforehand:
each entry has an nsUniqueId, and behind the suffix is the entry of the replica update
vector (RUV). Servers with the same generation there, and no changes yet, go on with
incremental updates.
"""

from __future__ import annotations

import base64
import time
from pathlib import Path

from ldapslam.lab.ldif_lines import dn_of, records
from ldapslam.lab.server import LabError
from ldapslam.lab.site import BROKEN_SUFFIX

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


def write_broken(source: Path, target: Path, dn: str, attribute: str | None) -> None:
    """Copy an LDIF without the entry `dn`, or with another value of its `attribute`."""
    is_found = False
    with target.open("wb", buffering=1 << 20) as output:
        for record in records(source):
            if dn_of(record).lower() == dn.lower():
                is_found = True
                record = [] if attribute is None else _broken(record, attribute)
            output.write(b"".join(line + b"\n" for line in record) + b"\n")
    if not is_found:
        raise LabError(f"there is no entry {dn!r} on this server")


def _broken(record: list[bytes], attribute: str) -> list[bytes]:
    wanted = attribute.lower().encode()
    for index, line in enumerate(record):
        name, _, value = line.partition(b":")
        # Options such as ;vucsn-… are the state of replication.
        description, *state = name.lower().split(b";")
        if description == wanted and b"deleted" not in state:
            old = base64.b64decode(value[1:]) if value[:1] == b":" else value.strip()
            new = base64.b64encode(old + BROKEN_SUFFIX)
            return [*record[:index], name + b":: " + new, *record[index + 1 :]]
    raise LabError(f"the entry {dn_of(record)!r} has no {attribute}")


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
