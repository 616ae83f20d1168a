# SPDX-License-Identifier: Apache-2.0
"""One run: submission, life cycle, control, incoming reports, crash recovery."""
