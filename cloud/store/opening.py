"""Bringing the feedback database to this program's tables, whichever process comes first."""

from pathlib import Path
from typing import Final

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection

from cloud.store.engine import open_engine, translated, write_alone, writing
from cloud.store.migrating import Migrations
from shared.errors import Unavailable

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
    _check_folder(engine.url, setting)
    try:
        with translated(where), engine.connect() as connection:
            if _is_newest(connection):  # whoever writes meanwhile holds no start up
                return
        with translated(where), writing(engine).begin() as connection:
            write_alone(connection, _LOCK)
            MIGRATIONS.apply(connection, where)
    finally:
        engine.dispose()


def _check_folder(url: URL, setting: str) -> None:
    """A new database in a place that nobody meant would only look empty."""
    if url.get_backend_name() != "sqlite" or url.database in {None, "", ":memory:"}:
        return
    folder = Path(str(url.database)).absolute().parent
    if not folder.is_dir():
        raise Unavailable(
            f"{setting}: there is no folder {folder} (a file counts from the working directory): start "
            "the process that makes it first (`hybridge-cloud serve`), or name another"
        )


def _is_newest(connection: Connection) -> bool:
    options = {"version_table": MIGRATIONS.version_table}
    present = MigrationContext.configure(connection, opts=options).get_current_heads()
    return set(present) == set(ScriptDirectory.from_config(MIGRATIONS.config()).get_heads())
