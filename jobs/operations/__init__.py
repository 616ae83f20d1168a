# SPDX-License-Identifier: Apache-2.0
"""The operations that a job file knows: one module each, one row here.

A new operation is a subclass of `OperationBody` in a module of its own, and its row.
"""

from __future__ import annotations

from ldapslam.jobs.operations.abandon import Abandon
from ldapslam.jobs.operations.add import Add
from ldapslam.jobs.operations.bind import BindOperation
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.operations.compare import Compare
from ldapslam.jobs.operations.delete import Delete
from ldapslam.jobs.operations.extended import Extended
from ldapslam.jobs.operations.modify import Modify
from ldapslam.jobs.operations.modify_dn import ModifyDn
from ldapslam.jobs.operations.search import Search
from ldapslam.jobs.operations.unbind import Unbind

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
