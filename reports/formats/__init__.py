# SPDX-License-Identifier: Apache-2.0
"""A report as HTML, PDF, text, CSV and HdrHistogram log."""
