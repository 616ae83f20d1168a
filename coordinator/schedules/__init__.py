# SPDX-License-Identifier: Apache-2.0
"""Runs at given times: recurrence, the scheduler, the schedule store."""
