# SPDX-License-Identifier: Apache-2.0
"""The figures that tables of many runs show, and those of a study's table, which are
read from the result.json of a run. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.fields.thresholds import FigureName, parse_name
from ldapslam.jobs.model import Job
from ldapslam.reports.figures import combined, figures_in, matching

NOTATION = """\
    name                                  as `ldapslam describe figures` has it; the
                                          column's heading has the unit
    one + another                         their sum

Of several streams or operations, rates and counts are added up, means and shares
are those of all of their requests; others are of one.
"""

#: Between brackets, it is of a name.
_PLUS = re.compile(r" \+ (?![^(]*\))")

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A parsed column."""

    #: The names of figures that are added up.
    names: tuple[FigureName, ...]

    @classmethod
    def of(cls, text: str) -> Column:
        """Parsed; Fault."""
        return cls(tuple(parse_name(one.strip()) for one in _PLUS.split(text)))

    def read(self, result: Result) -> float | None:
        """Its value; None where the run does not have it."""
        figures = figures_in(result)
        values = [combined(matching(one, figures)) for one in self.names]
        known = [one for one in values if one is not None]
        return math.fsum(known) if len(known) == len(values) else None


def check_figures(figures: Mapping[str, Column], jobs: Sequence[Job]) -> None:
    """ConfigError for a column of which no job of the study has the figures."""
    for name in (name for column in figures.values() for name in column.names):
        faults = [job.missing_figure(name, " in a column") for job in jobs]
        if faults and (fault := faults[0]) and all(faults):
            raise ConfigError(fault.reason, hint=fault.hint)
