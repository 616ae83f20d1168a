# SPDX-License-Identifier: Apache-2.0
"""What everything else stands on: errors, units, texts, times. Imports no other
folder."""
