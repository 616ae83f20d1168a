# SPDX-License-Identifier: Apache-2.0
"""How to come to a directory, from the options that the one-line commands have too.

They are read as a job's are, so that they mean the same and fail the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ldapslam.cli.measure.one_line_options import compose_head
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.plan import agent_plan

#: What a job needs beside its target; nobody sends it.
_STREAM = {
    "name": "access",
    "target": "directory",
    "load": {"closed": {"clients": 1}},
    "operations": [{"search": {"base": "", "scope": "base"}}],
}


def directory_access(uri: str, given: Mapping[str, Any]) -> ConnectionSettings:
    """What the values of `connection_options` say, with the password. JobErrors and
    ConfigError in the words of the options."""
    if given["realm"] is not None:
        raise click.UsageError("--realm is for load; here the mechanism's own is taken")
    job = compose_head("access", [uri], dict(given), "URI")
    job.put(("run", "duration"), "1s", "")
    job.put(("streams", 0), _STREAM, "")
    return agent_plan(job.load(), 0, 1, 0).streams[0].connection.resolved()
