# SPDX-License-Identifier: Apache-2.0
"""The commands that measure from this host: run, check, demo, quick operations."""
