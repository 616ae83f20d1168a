# SPDX-License-Identifier: Apache-2.0
"""The language of entry templates, for adds and for test data."""
