# SPDX-License-Identifier: Apache-2.0
"""Which entries a run added, kept through a crash, and their removal afterwards."""
