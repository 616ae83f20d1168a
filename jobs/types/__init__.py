# SPDX-License-Identifier: Apache-2.0
"""The job types: those of this package, and those that others have installed."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.types.base import JobType
from ldapslam.jobs.types.built_in import BUILT_IN

ENTRY_POINTS = "ldapslam.job_types"

_log = logging.getLogger(__name__)


@functools.cache
def job_types() -> Mapping[str, type[JobType[Any]]]:
    """Every job type by its name. One that cannot be imported, or is none, is left out
    with a warning: it must not keep others from being used."""
    types = {one.name: one for one in BUILT_IN}
    for entry_point in entry_points(group=ENTRY_POINTS):
        try:
            found = entry_point.load()
        except Exception as error:
            _log.warning("job type %r of %s: %s", entry_point.name, entry_point, error)
            continue
        if not _is_type(found):
            _log.warning("job type %r is no JobType with Options", entry_point.name)
            continue
        if entry_point.name in types:
            _log.warning("job type %r is there twice", entry_point.name)
            continue
        types[entry_point.name] = found
    return MappingProxyType(types)


def _is_type(found: Any) -> bool:
    return (
        isinstance(found, type)
        and issubclass(found, JobType)
        and isinstance(getattr(found, "name", None), str)
        and isinstance(getattr(found, "Options", None), type)
        and issubclass(found.Options, Section)
    )
