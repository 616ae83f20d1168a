# SPDX-License-Identifier: Apache-2.0
"""Errors, units, texts, times: what all other folders use."""
