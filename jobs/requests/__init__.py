# SPDX-License-Identifier: Apache-2.0
"""The engine's program for a request: patterns, filters, DNs and BER templates."""
