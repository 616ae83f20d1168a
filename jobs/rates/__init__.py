# SPDX-License-Identifier: Apache-2.0
"""Load models over time: constant, ramps, stages, rate files."""
