# SPDX-License-Identifier: Apache-2.0
"""Packed histograms as columns (agent/csrc/columns). ValueError: damaged."""

import numpy as np
import numpy.typing as npt

def block(
    content: bytes, spans: npt.NDArray[np.int64], /
) -> tuple[bytes, bytes, bytes]:
    """Headers, indexes and counts of the packed histograms; `spans` has start and
    length of each."""
