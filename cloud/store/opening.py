"""Bringing the feedback database to this program's tables, whichever process comes first."""

from typing import Final

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from cloud.store.engine import open_engine, translated, write_alone, writing
from cloud.store.migrating import Migrations

MIGRATIONS: Final = Migrations("cloud.store", "feedback_schema")
_LOCK: Final = 0x6879_6665_6564  # of PostgreSQL's advisory locks: "hyfeed"
_WAIT_S: Final = 120
"""For another process that migrates: half a minute for 500,000 samples of the first program."""


def migrate(url: str, setting: str) -> None:
    """Create or migrate the tables; several processes may do so at once.

    Raises `Malformed` for a URL that is none and a database of a newer program, `Unavailable`.
    """
    engine = open_engine(url, setting, file_wait_s=_WAIT_S)
    where = f"feedback store {engine.url!r}"
    try:
        with translated(where), engine.connect() as connection:
            if _is_newest(connection):  # whoever writes meanwhile holds no start up
                return
        with translated(where), writing(engine).begin() as connection:
            write_alone(connection, _LOCK)
            MIGRATIONS.apply(connection, where)
    finally:
        engine.dispose()


def _is_newest(connection: Connection) -> bool:
    options = {"version_table": MIGRATIONS.version_table}
    present = MigrationContext.configure(connection, opts=options).get_current_heads()
    return set(present) == set(ScriptDirectory.from_config(MIGRATIONS.config()).get_heads())
