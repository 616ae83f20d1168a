# SPDX-License-Identifier: Apache-2.0
"""A report of an interval as it travels and is stored: a serialised Snapshot
(proto/common.proto) in zstd's format, which takes a third of the room."""

from __future__ import annotations

import hashlib

import zstandard
from google.protobuf.message import DecodeError

from ldapslam.base.errors import StoreError
from ldapslam.proto.common_pb2 import Snapshot

#: What a report may unpack to: some thousand operations, and so many times what it is
#: packed. Usual reports have the triple; thousands of like rows, 500 times.
MAX_SNAPSHOT_BYTES = 32 << 20
_MOST_TIMES, _MOST_BESIDE = 1024, 65_536
#: Takes a tenth of zlib's time for 3 % more bytes.
_LEVEL = 1


def pack(snapshot: Snapshot) -> bytes:
    return zstandard.compress(snapshot.SerializeToString(), _LEVEL)


def unpack(packed: bytes) -> Snapshot:
    """StoreError when it is damaged, or unpacks to more than a report can be."""
    most = min(MAX_SNAPSHOT_BYTES, _MOST_BESIDE + _MOST_TIMES * len(packed))
    try:
        if zstandard.frame_content_size(packed) > most:
            raise StoreError("an interval's report is too long")
        # without a length in its header it is refused
        unpacking = zstandard.ZstdDecompressor()
        content = unpacking.decompress(packed, allow_extra_data=False)
        return Snapshot.FromString(content)
    except (zstandard.ZstdError, DecodeError) as error:
        raise StoreError(f"an interval's report is damaged: {error}") from error


def digest_of(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()
