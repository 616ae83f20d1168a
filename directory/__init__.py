# SPDX-License-Identifier: Apache-2.0
"""What the tool itself asks a directory, with python-ldap: access, contents, counts,
replication state."""
