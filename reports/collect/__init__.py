# SPDX-License-Identifier: Apache-2.0
"""Reads a run from the store and merges its intervals."""
