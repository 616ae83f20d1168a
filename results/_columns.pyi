# SPDX-License-Identifier: Apache-2.0
"""Reports of intervals as columns (agent/csrc/columns). ValueError: damaged."""

import numpy as np
import numpy.typing as npt

#: Cells of a row; number, kind (columns/tables.h), and cell or table, of each field.
_Table = tuple[int, tuple[tuple[int, int, int], ...]]

def tables(
    spec: tuple[_Table, ...], content: bytes, ends: npt.NDArray[np.int64], /
) -> tuple[list[bytes], list[str]]:
    """The cells of each table as int64, row by row, and the texts that they number."""

def block(
    content: bytes, spans: npt.NDArray[np.int64], /
) -> tuple[bytes, bytes, bytes]:
    """Headers, indexes and counts of the packed histograms; `spans` has start and
    length of each."""

def used(indexes: npt.NDArray[np.uint16], /) -> tuple[bytes, bytes]:
    """The buckets among these, ascending, as int64; and the place of each of all
    buckets there, as uint16."""

def add(
    lengths: npt.NDArray[np.uint32],
    indexes: npt.NDArray[np.uint16],
    counts: npt.NDArray[np.uint32],
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.uint16],
    width: int,
    height: int,
    /,
) -> bytes:
    """A table of int64: the buckets of each histogram added to its row, each in its
    column; row -1: left out."""
