# SPDX-License-Identifier: Apache-2.0
"""What all unit tests leave as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def kept_signal_handler() -> Iterator[None]:
    """A command that is run in this process sets it."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)
