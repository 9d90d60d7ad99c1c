"""Bringing a database to the schema of this program, with alembic, inside one transaction."""

import threading
from importlib.resources import files
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from shared.errors import Malformed

_ONE = threading.Lock()
"""alembic keeps what it migrates in a module's globals."""
VERSION_TABLE: Final = "fleet_schema"
"""Not alembic's own name for it: the registry's tables, or others, may share the database."""


def config(connection: Connection | None = None) -> Config:
    """Alembic's settings: no file, the scripts of this package."""
    found = Config()
    found.set_main_option("script_location", str(files("cloud.fleet.store").joinpath("migrations")))
    found.set_main_option("path_separator", "os")
    found.attributes["connection"] = connection
    return found


def migrate(connection: Connection, where: str) -> None:
    """Take the tables to the newest revision, in the connection's transaction.

    The caller keeps others out. Raises `Malformed` for a database of a newer program.
    """
    settings = config(connection)
    scripts = ScriptDirectory.from_config(settings)
    known = {script.revision for script in scripts.walk_revisions()}
    with _ONE:
        present = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE}
        ).get_current_heads()
        if unknown := set(present) - known:
            raise Malformed(
                f"{where}: its tables are of revision {', '.join(sorted(unknown))}, written by a "
                f"newer program than this one, which knows up to {scripts.get_current_head()}; "
                "update the program"
            )
        if set(present) != set(scripts.get_heads()):
            command.upgrade(settings, "head")
