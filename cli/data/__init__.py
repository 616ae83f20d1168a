# SPDX-License-Identifier: Apache-2.0
"""The commands `data` and `lab`: test data and temporary directories."""
