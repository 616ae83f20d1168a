# SPDX-License-Identifier: Apache-2.0
"""Example jobs and settings: files only, found by importlib.resources."""
