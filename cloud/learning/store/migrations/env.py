"""What alembic runs around the migrations: they take place in the connection that it is given."""

from alembic import context

from cloud.learning.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=context.config.attributes["version_table"],
)
context.run_migrations()
