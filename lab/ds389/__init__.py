# SPDX-License-Identifier: Apache-2.0
"""A temporary 389-DS server."""
