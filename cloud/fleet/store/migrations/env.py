"""What alembic runs around the migrations: they take place in the connection that it is given."""

from alembic import context

from cloud.fleet.store.migrate import VERSION_TABLE
from cloud.fleet.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()
