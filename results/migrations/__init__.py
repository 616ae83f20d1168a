# SPDX-License-Identifier: Apache-2.0
"""Alembic's script folder of the results store; `store` runs it, never a command."""
