# SPDX-License-Identifier: Apache-2.0
"""The process of its own that drives one run with the C engine."""
