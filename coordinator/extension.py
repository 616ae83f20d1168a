# SPDX-License-Identifier: Apache-2.0
"""What is served beside the coordinator itself: further services, and their background.

An extension is made before the coordinator, which it observes, and started with it.
"""

from __future__ import annotations

from typing import Any

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.observer import Observer


class Extension(Observer):
    """Overrides what it needs; all of it on the coordinator's event loop."""

    async def check(self) -> None:
        """ConfigError when it cannot work; asked before anything is opened."""

    async def start(self, coordinator: Coordinator, server: Any) -> None:
        """Add services to the server (a grpc.aio.Server; every method needs its roles
        in access.ROLES), begin what runs in the background.

        The coordinator has taken up its runs by then; no call comes before it returns.
        """

    async def stop(self) -> None:
        """End it, also when the start failed. The coordinator has stopped, its store
        writer is still there."""
