# SPDX-License-Identifier: Apache-2.0
"""The commands that start servers: coordinator, agent, pki."""
