# SPDX-License-Identifier: Apache-2.0
"""The operations that a job file knows: a subclass of `OperationBody` each, and its row
here."""

from __future__ import annotations

from ldapslam.jobs.operations.add import Add
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.operations.connection import Abandon, BindOperation, Extended, Unbind
from ldapslam.jobs.operations.entries import Compare, Delete, Modify, ModifyDn
from ldapslam.jobs.operations.search import Search

#: By key in the job file.
OPERATIONS: dict[str, type[OperationBody]] = {
    body.kind: body
    for body in (
        Search,
        Add,
        Modify,
        Delete,
        ModifyDn,
        Compare,
        BindOperation,
        Extended,
        Abandon,
        Unbind,
    )
}
