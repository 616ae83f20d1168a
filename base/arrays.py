# SPDX-License-Identifier: Apache-2.0
"""The types of numpy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
Unsigned = npt.NDArray[np.uint64]
