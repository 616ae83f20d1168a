# SPDX-License-Identifier: Apache-2.0
"""One load generator on one host: runs jobs and delivers its reports."""
