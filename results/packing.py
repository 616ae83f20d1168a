# SPDX-License-Identifier: Apache-2.0
"""A report of an interval as it travels and is stored: a serialised Snapshot
(proto/common.proto) in zlib's format, which takes a third of the room."""

from __future__ import annotations

import hashlib
import zlib

from google.protobuf.message import DecodeError

from ldapslam.base.errors import StoreError
from ldapslam.proto.common_pb2 import Snapshot

#: What a report may unpack to: some thousand operations, and so many times what it is
#: packed. Usual reports have the triple; thousands of like rows, 66 times.
MAX_SNAPSHOT_BYTES = 32 << 20
_MOST_TIMES, _MOST_BESIDE = 256, 65_536
#: An agent packs once an interval; unpacking takes as long at any level.
_LEVEL = 6


def pack(snapshot: Snapshot) -> bytes:
    return zlib.compress(snapshot.SerializeToString(), _LEVEL)


def unpack(packed: bytes) -> Snapshot:
    """StoreError when it is damaged, or unpacks to more than a report can be."""
    unpacking = zlib.decompressobj()
    most = min(MAX_SNAPSHOT_BYTES, _MOST_BESIDE + _MOST_TIMES * len(packed))
    try:
        content = unpacking.decompress(packed, most)
        if not unpacking.eof or unpacking.unused_data:
            raise StoreError("an interval's report is cut off, or too long")
        return Snapshot.FromString(content)
    except (zlib.error, DecodeError) as error:
        raise StoreError(f"an interval's report is damaged: {error}") from error


def digest_of(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()
