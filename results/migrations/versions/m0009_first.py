# SPDX-License-Identifier: Apache-2.0
"""The oldest schema that is brought up to date."""

revision = "0009"
down_revision = None


def upgrade() -> None:
    """New stores are made from `schema`."""
