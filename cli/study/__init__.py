# SPDX-License-Identifier: Apache-2.0
"""Commands that make many runs: studies and the search for capacity."""
