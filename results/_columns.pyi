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
