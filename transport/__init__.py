# SPDX-License-Identifier: Apache-2.0
"""How the processes talk: errors on the wire, messages, channels, credentials."""
