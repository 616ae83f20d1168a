# SPDX-License-Identifier: Apache-2.0
"""Monitors: what servers and hosts say of themselves while they are loaded.

`choose.monitors_for` makes those that a job asks of one agent; `base` has what they
share.
"""
