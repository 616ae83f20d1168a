# SPDX-License-Identifier: Apache-2.0
"""Runs against runs: how they were made, and whether their figures differ."""
