# SPDX-License-Identifier: Apache-2.0
"""A service beside the coordinator's own, with its background tasks.

It is made before the coordinator, which it observes, and started with it.
"""

from __future__ import annotations

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.security.guard import Server


class Extension(Observer):
    """Overrides what it needs; all of it on the coordinator's event loop."""

    async def check(self) -> None:
        """ConfigError when it cannot work; asked before anything is opened."""

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        """Add services to the server (each method needs its roles in
        access.ROLES), begin background tasks. Runs are taken up already; no call comes
        before it returns."""

    async def stop(self) -> None:
        """End it, also when the start failed; the coordinator has stopped, its store is
        open."""
