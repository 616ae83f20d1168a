# SPDX-License-Identifier: Apache-2.0
"""p values of a family of tests: of many, one would find something by chance. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def holm(p: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """p values, shape (m,), adjusted for m tests so that no true "no change" of the
    whole family is called a change in more than the level (Holm 1979, Scandinavian
    Journal of Statistics 6, 65-70)."""
    values = np.asarray(p, np.float64)
    order = np.argsort(values)
    scaled = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted
