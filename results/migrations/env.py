# SPDX-License-Identifier: Apache-2.0
"""What Alembic executes: migrates over the connection that `migrate` hands over."""

from alembic import context

from ldapslam.results.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
