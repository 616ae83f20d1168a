# SPDX-License-Identifier: Apache-2.0
"""Streams that a user's Python class drives, in client processes."""
