# SPDX-License-Identifier: Apache-2.0
"""What is served beside the coordinator itself: further services, and their background.

An extension is made before the coordinator, because it may be an observer of it, and
started with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.hooks import Observer
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.security.audit_log import AuditLog


@dataclass(frozen=True, slots=True)
class Parts:
    """What an extension may use, from its start to its stop."""

    coordinator: Coordinator
    journal: Journal
    audit: AuditLog
    #: grpc.aio.Server, for `add_…Servicer_to_server`. Every method needs its roles in
    #: access.ROLES.
    server: Any


class Extension:
    """Overrides what it needs; all of it on the coordinator's event loop."""

    def observers(self) -> Sequence[Observer]:
        """Who is told of runs, beside those of the hooks."""
        return ()

    async def start(self, parts: Parts) -> None:
        """Add services to the server, begin what runs in the background.

        The coordinator has taken up its runs by then; no call comes before it returns.
        """

    def ending(self) -> None:
        """The coordinator is about to drain: begin nothing new."""

    async def stop(self) -> None:
        """End it, also when the start failed: the coordinator has stopped, its journal
        is still there."""
