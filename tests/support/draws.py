# SPDX-License-Identifier: Apache-2.0
"""How many draws a simulation takes: few in `make test`, all in `make check-full`.

A test that takes the fixture `draws` has the marker `simulation`, by which `make
check-full` runs it once more with --all-draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from ldapslam.base.arrays import Floats

#: The part that `make test` takes.
_SHARE = 0.2


@dataclass(frozen=True)
class Draws:
    is_all: bool

    def of(self, number: int) -> int:
        """Return how many draws to take where all are `number`."""
        return number if self.is_all else round(_SHARE * number)

    def slack(self, share: float, number: int) -> float:
        """Return what chance adds to a share: 0 with all draws, which tests have limits
        for; of fewer, three standard deviations."""
        if self.is_all:
            return 0.0
        return 3 * math.sqrt(share * (1 - share) / self.of(number))


def autoregressive(rng: np.random.Generator, count: int, r: float) -> Floats:
    """Return values of the variance 1, of which neighbours have the correlation r."""
    noise = rng.normal(0, np.sqrt(1 - r * r), count)
    noise[0] = rng.normal()
    for place in range(1, count):
        noise[place] += r * noise[place - 1]
    return noise


@pytest.fixture(scope="session")
def draws(request: pytest.FixtureRequest) -> Draws:
    return Draws(is_all=bool(request.config.getoption("--all-draws")))
