# SPDX-License-Identifier: Apache-2.0
"""The fields of a job file that are not operations: names, types, checks."""
