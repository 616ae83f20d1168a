# SPDX-License-Identifier: Apache-2.0
"""Schedules jobs on agents, watches their runs and collects what they report."""
