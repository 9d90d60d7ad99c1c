"""Alembic runs this; what it does is every package's (`cloud/store/migration_environment.py`)."""

from cloud.store.migration_environment import run

run()
