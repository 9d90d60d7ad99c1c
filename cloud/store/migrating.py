"""Bringing a database to the schema of this program, with alembic, inside one transaction."""

import threading
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from shared.errors import Malformed

_ONE: Final = threading.Lock()
"""alembic keeps what it migrates in a module's globals."""


@dataclass(frozen=True, slots=True)
class Migrations:
    """Those of one package's tables."""

    package: str
    """Its folder `migrations` has the scripts, and `env.py`, which alembic runs around them."""
    version_table: str
    """Not alembic's own name for it: other tables may share the database."""

    def config(self, connection: Connection | None = None) -> Config:
        """Alembic's settings: no file, the scripts of the package."""
        found = Config()
        found.set_main_option("script_location", str(files(self.package).joinpath("migrations")))
        found.set_main_option("path_separator", "os")
        found.attributes["connection"] = connection
        found.attributes["version_table"] = self.version_table
        return found

    def apply(self, connection: Connection, where: str) -> None:
        """Take the tables to the newest revision, in the connection's transaction.

        The caller keeps others out. Raises `Malformed` for a database of a newer program.
        """
        settings = self.config(connection)
        scripts = ScriptDirectory.from_config(settings)
        known = {script.revision for script in scripts.walk_revisions()}
        with _ONE:
            present = MigrationContext.configure(
                connection, opts={"version_table": self.version_table}
            ).get_current_heads()
            if unknown := set(present) - known:
                raise Malformed(
                    f"{where}: its tables are of revision {', '.join(sorted(unknown))}, written by "
                    "a newer program than this one, which knows up to "
                    f"{scripts.get_current_head()}; update the program"
                )
            if set(present) != set(scripts.get_heads()):
                command.upgrade(settings, "head")
