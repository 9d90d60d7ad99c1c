"""What alembic runs around every package's migrations, from its `migrations/env.py`."""

from alembic import context


def run() -> None:
    """In the connection that `Migrations.config` was given."""
    context.configure(
        connection=context.config.attributes["connection"],
        version_table=context.config.attributes["version_table"],
    )
    context.run_migrations()
