# SPDX-License-Identifier: Apache-2.0
"""Monitors: what servers and hosts say of themselves during a run."""
