# SPDX-License-Identifier: Apache-2.0
"""Runs at given times: recurrence, maintenance windows, the schedule store."""
