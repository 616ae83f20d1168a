# SPDX-License-Identifier: Apache-2.0
"""What goes into a state machine, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(frozen_default=True)
class Message:
    """An event or a command: every class below it is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
