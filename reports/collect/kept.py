# SPDX-License-Identifier: Apache-2.0
"""What was collected of a part of a run as bytes, as the store keeps it: MessagePack
in zstd's format, checked against the types when it is read."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TypeVar, get_args, get_origin

import msgspec
import numpy as np

from ldapslam.base.errors import StoreError
from ldapslam.reports.collect.totals import Collected
from ldapslam.results.histogram import BUCKETS, Histogram, Sums
from ldapslam.results.packing import compressed, decompressed

T = TypeVar("T")

#: The content of one part may not unpack to more.
_MOST_BYTES = 1 << 30


def encoded(collected: Collected) -> bytes:
    """StoreError where it cannot be kept: it is too long, or has a number that does not
    fit."""
    try:
        content = _ENCODER.encode(collected)
    except (OverflowError, ValueError) as error:
        raise StoreError(f"a part of a run cannot be kept: {error}") from error
    if len(content) > _MOST_BYTES:
        raise StoreError("a part of a run is too long")
    return compressed(content)


def decoded(content: bytes) -> Collected:
    """StoreError where it is none."""
    try:
        return _DECODER.decode(decompressed(content, _MOST_BYTES, "a part of a run"))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise StoreError(f"a part of a run is damaged: {error}") from error


class _Histogram(msgspec.Struct, array_like=True):
    """Buckets that hold values, ascending, and the values in each, little-endian."""

    buckets: bytes
    counts: bytes
    sums: Sums
    unanswered: int


def _to_plain(value: object) -> object:
    if isinstance(value, Histogram):
        counts = value.counts
        buckets = np.flatnonzero(counts)
        return _Histogram(
            buckets.astype("<u2").tobytes(),
            counts[buckets].astype("<i8").tobytes(),
            Sums(*(getattr(value, name) for name in Sums._fields)),
            value.unanswered,
        )
    if isinstance(value, np.generic):
        number: object = value.item()
        return number
    raise NotImplementedError(type(value))


def _of_plain(kind: type, value: object) -> object:
    if kind is Histogram:
        return _histogram(msgspec.convert(value, _Histogram))
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Counter:
        return Counter(_convert(value, dict[arguments[0], int]))  # type: ignore[valid-type]
    if origin is defaultdict:
        content = arguments[1]
        found = _convert(value, dict[arguments])  # type: ignore[misc,valid-type]
        return defaultdict(get_origin(content) or content, found)
    raise NotImplementedError(kind)


def _histogram(packed: _Histogram) -> Histogram:
    histogram = Histogram()
    buckets = np.frombuffer(packed.buckets, "<u2")
    counts = np.frombuffer(packed.counts, "<i8")
    is_ascending = (buckets[1:] > buckets[:-1]).all() and (buckets[-1:] < BUCKETS).all()
    if buckets.size != counts.size or (counts <= 0).any() or not is_ascending:
        raise StoreError("a histogram of a part of a run is damaged")
    histogram.add_counts(buckets, counts, packed.sums)
    histogram.unanswered = packed.unanswered
    return histogram


def _convert(value: object, kind: type[T]) -> T:
    return msgspec.convert(value, kind, dec_hook=_of_plain)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_to_plain)
_DECODER = msgspec.msgpack.Decoder(Collected, dec_hook=_of_plain)
