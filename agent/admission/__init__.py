# SPDX-License-Identifier: Apache-2.0
"""May this host run this plan: the operator's limits, the target servers, the room."""
