# SPDX-License-Identifier: Apache-2.0
"""What stands above the single run: studies of many, and the search for capacity."""
