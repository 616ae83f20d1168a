# SPDX-License-Identifier: Apache-2.0
"""The types of numpy arrays, and their median."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Unsigned = npt.NDArray[np.uint64]


def median(values: Floats) -> float:
    """Return the median; NaN if a value is NaN. numpy's own would load its arrays with
    masks."""
    ordered = np.sort(values)
    if np.isnan(ordered[-1]):  # NaN is sorted last
        return float(ordered[-1])
    return float(ordered[(ordered.size - 1) // 2 : ordered.size // 2 + 1].mean())
