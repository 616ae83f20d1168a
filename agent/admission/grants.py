# SPDX-License-Identifier: Apache-2.0
"""What of an agent's host a job may use: secrets, and classes in Python. Pure but for
the names that the file system gives to paths.

    env:NAME        that environment variable
    file:/PATH      that file, or those below that folder
    any             all but the agent's own

An agent's own files (its key, its spool) and /proc are never read for a job, whatever
the rules: a job names a server, and a secret is sent there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ldapslam.agent.admission.limits import ANY_PATH, AgentLimits
from ldapslam.base.errors import ConfigError, NotGranted
from ldapslam.base.secrets import SecretRef
from ldapslam.jobs.fields.connection import Secret, Tls
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import AgentPlan
from ldapslam.jobs.types.base import PYTHON_JOBS

_ENV, _FILE = "env:", "file:"
#: Among them other processes' environments and memory.
NEVER = ("/proc", "/sys", "/dev")


def check_secret_rules(rules: Iterable[str]) -> tuple[str, ...]:
    """The rules as they are; ConfigError for one that is none."""
    checked = tuple(rules)
    for rule in checked:
        is_file = rule.startswith(f"{_FILE}/")
        is_env = rule.startswith(_ENV) and len(rule) > len(_ENV)
        if not (is_file or is_env or rule == ANY_PATH):
            raise ConfigError(
                f"allow-secret {rule!r} is no rule",
                hint="write env:NAME, file:/absolute/path of a file or folder, or any",
            )
    return checked


def check_grants(job: Job, plan: AgentPlan, limits: AgentLimits, agent: str) -> None:
    """NotGranted when the job names what the agent's operator keeps from it."""
    check_secrets(job, limits, agent)
    for stream in plan.streams:
        if stream.python is not None:
            _check_class(stream.python.class_path, limits, agent)


def check_secrets(job: Job, limits: AgentLimits, agent: str) -> None:
    for secret in secrets_of(job):
        _check_secret(secret, limits, agent)


def secrets_of(value: Any) -> Iterator[SecretRef]:
    """Every reference in a job, or a part of it."""
    if isinstance(value, Secret):
        yield value.ref
    elif isinstance(value, Tls):
        # who has a key can be somebody, too
        for path in (value.cert_file, value.key_file):
            if path is not None:
                yield SecretRef(file=path)
    elif isinstance(value, BaseModel):
        for one in vars(value).values():
            yield from secrets_of(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from secrets_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from secrets_of(one)


def _check_secret(secret: SecretRef, limits: AgentLimits, agent: str) -> None:
    what = f"read the secret {secret}"
    if secret.env is not None:
        rule = f"{_ENV}{secret.env}"
        if rule not in limits.secrets and ANY_PATH not in limits.secrets:
            raise NotGranted(agent, what, "allow-secret", rule)
        return
    named = Path(secret.file or "")
    try:
        path = Path(os.path.realpath(named))
    except OSError as error:  # of a link that leads nowhere for us
        raise NotGranted(agent, what) from error
    never = (*NEVER, *limits.own_files)
    if _is_below(named, NEVER) or _is_below(path, never):
        raise NotGranted(agent, what)
    allowed = [rule.removeprefix(_FILE) for rule in limits.secrets if "/" in rule]
    if ANY_PATH not in limits.secrets and not _is_below(path, allowed):
        raise NotGranted(agent, what, "allow-secret", f"{_FILE}{secret.file}")


def _is_below(path: Path, places: Iterable[str]) -> bool:
    return any(path.is_relative_to(os.path.realpath(one)) for one in places)


def _check_class(class_path: str, limits: AgentLimits, agent: str) -> None:
    """Checked before the import, which runs code of the class's module."""
    module = class_path.partition(":")[0]
    # installed to be used
    installed = {one.value for one in entry_points(group=PYTHON_JOBS)}
    if class_path in installed or module.startswith("ldapslam."):
        return
    for rule in limits.classes:
        is_package = module == rule or module.startswith(f"{rule}.")
        if rule in (ANY_PATH, class_path) or is_package:
            return
    raise NotGranted(agent, f"run the class {class_path}", "allow-class", class_path)
