# SPDX-License-Identifier: Apache-2.0
"""What is served with a coordinator: judge, schedules, health, news, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.health import Health
from ldapslam.coordinator.hooks import Hooks

if TYPE_CHECKING:
    from ldapslam.cli.notifier import NotifySettings


def coordinator_services(
    store_url: str,
    notify: NotifySettings,
    metrics: tuple[str, int] | None,
    *,
    is_local_fleet: bool,
) -> tuple[Hooks, list[Extension]]:
    """For `run_coordinator`. A local fleet's run is judged by the command that made
    it, which also tells of it."""
    extensions: list[Extension] = [Health()]
    if metrics is not None:
        from ldapslam.cli.metrics_server import exposed
        from ldapslam.coordinator.metrics import Metrics

        extensions.append(Metrics(lambda registry: exposed(registry, metrics)))
    if is_local_fleet:
        return Hooks(), extensions
    from ldapslam.cli.judge import JudgeProcess
    from ldapslam.cli.notifier import Notifier
    from ldapslam.coordinator.schedule_service import Schedules

    extensions.append(Schedules())
    judge = JudgeProcess(store_url)
    extensions.append(Notifier(notify, judge.reasons))
    return Hooks(judge=judge), extensions
