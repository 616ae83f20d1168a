# SPDX-License-Identifier: Apache-2.0
"""The entries of test directories: made from templates, loaded, compared."""
