# SPDX-License-Identifier: Apache-2.0
"""A temporary slapd server."""
