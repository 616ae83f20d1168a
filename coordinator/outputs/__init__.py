# SPDX-License-Identifier: Apache-2.0
"""What a coordinator tells others: metrics, health, ends of runs."""
