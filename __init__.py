# SPDX-License-Identifier: Apache-2.0
"""A distributed load generator for LDAP directories."""

__version__ = "0.1.0"
