# SPDX-License-Identifier: Apache-2.0
"""One load generator on one host: runs what a coordinator sends, and delivers its
reports."""
