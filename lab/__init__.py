# SPDX-License-Identifier: Apache-2.0
"""Throw-away directories: suppliers and replicas, of slapd or of 389-DS.

`Lab` is the whole interface: a context manager that brings up the servers in a
temporary folder, loaded and in sync, and leaves nothing behind, however its process
ends; `standing` has the labs that stay. It may assume Linux, OpenLDAP 2.5 or later and
389-DS 2.0 or later; it knows nothing of agents, runs or reports.
"""

from ldapslam.lab.lab import Lab
from ldapslam.lab.server import LabError, Server
from ldapslam.lab.site import Choices

__all__ = ["Choices", "Lab", "LabError", "Server"]
