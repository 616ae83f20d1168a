# SPDX-License-Identifier: Apache-2.0
"""Throw-away directories: slapd as a supplier and its syncrepl replicas.

`Lab` is the whole interface: a context manager that brings up the servers in a
temporary folder, loaded and in sync, and leaves nothing behind, however its process
ends. The demo and the tests use it. It may assume Linux and OpenLDAP 2.5 or later; it
knows nothing of agents, runs or reports.
"""

from ldapslam.lab.errors import LabError
from ldapslam.lab.lab import Lab
from ldapslam.lab.slapd import Server, SlapdSettings

__all__ = ["Lab", "LabError", "Server", "SlapdSettings"]
