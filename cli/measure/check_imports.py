# SPDX-License-Identifier: Apache-2.0
"""Whether a job's imports can be made, on this host, before a run."""

from __future__ import annotations

from typing import Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import put
from ldapslam.cli.measure.check_faults import Faults
from ldapslam.jobs.plan import AgentPlan
from ldapslam.jobs.types import bulk_load


def ask_imports(
    plan: AgentPlan, faults: Faults, *, as_json: bool
) -> list[dict[str, Any]]:
    """The server of each stream of imports, with folders, files and programs."""
    from ldapslam.agent.admission.limits import ANY_PATH, AgentLimits
    from ldapslam.lab.bulk_load.job import BulkLoad

    documents: list[dict[str, Any]] = []
    for stream in plan.streams:
        if (
            stream.python is None
            or stream.python.class_path != bulk_load.BulkLoad.python_class()
        ):
            continue
        try:
            version = BulkLoad(stream.python.options).examine(
                AgentLimits(imports=(ANY_PATH,))
            )
        except LdapSlamError as error:
            documents.append({"stream": stream.name, **faults.add(error)})
            continue
        documents.append({"stream": stream.name, "server": version})
        if not as_json:
            put(f"{stream.name}: this host can import into {version}")
    return documents
