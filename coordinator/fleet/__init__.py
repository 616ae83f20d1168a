# SPDX-License-Identifier: Apache-2.0
"""Agents and the queue of runs: who is there, who is free, whose clock says what."""
