# SPDX-License-Identifier: Apache-2.0
"""A report of an interval as it travels and is stored: a serialised Snapshot
(proto/common.proto) in zstd's format, which takes a third of the room."""

from __future__ import annotations

import hashlib
import threading

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
    return compressed(snapshot.SerializeToString())


def unpack(packed: bytes) -> Snapshot:
    """StoreError when it is damaged, or unpacks to more than a report can be."""
    most = min(MAX_SNAPSHOT_BYTES, _MOST_BESIDE + _MOST_TIMES * len(packed))
    content = decompressed(packed, most, "an interval's report")
    try:
        return Snapshot.FromString(content)
    except DecodeError as error:
        raise StoreError(f"an interval's report is damaged: {error}") from error


class _Packers(threading.local):
    """A thread's own: to make one takes nearly as long as to unpack a report."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_PACKERS = _Packers()


def compressed(content: bytes) -> bytes:
    return _PACKERS.compressor.compress(content)


def decompressed(packed: bytes, most_bytes: int, what: str) -> bytes:
    """StoreError when it is damaged, or longer than that."""
    try:
        if zstandard.frame_content_size(packed) > most_bytes:
            raise StoreError(f"{what} is too long")
        # without a length in its header it is refused
        return _PACKERS.decompressor.decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise StoreError(f"{what} is damaged: {error}") from error


def digest_of(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()
