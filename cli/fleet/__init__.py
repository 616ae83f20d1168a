# SPDX-License-Identifier: Apache-2.0
"""The commands that ask a coordinator: submit, schedule, list, watch, agents."""
