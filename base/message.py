# SPDX-License-Identifier: Apache-2.0
"""What goes into a state machine, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(frozen_default=True)
class Message:
    """An event or a command: every class below it is a dataclass. Type checkers hold it
    frozen; the methods with which dataclasses do so would be compiled for each class,
    at every start."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"
