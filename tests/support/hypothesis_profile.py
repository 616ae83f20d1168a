# SPDX-License-Identifier: Apache-2.0
"""How property tests run: few examples in `make test`, more in `make check-full`.

Without deadlines, which a busy machine would break.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

_EXAMPLES, _ALL_EXAMPLES = 25, 100


def pytest_configure(config: pytest.Config) -> None:
    is_all = config.getoption("--all-draws")
    settings.register_profile(
        "ldapslam",
        deadline=None,
        max_examples=_ALL_EXAMPLES if is_all else _EXAMPLES,
        print_blob=True,
    )
    settings.load_profile("ldapslam")
