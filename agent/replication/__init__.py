# SPDX-License-Identifier: Apache-2.0
"""Probe writes: how long a write takes to reach the replicas."""
