# SPDX-License-Identifier: Apache-2.0
"""The validity rules of a run, and its verdict."""
