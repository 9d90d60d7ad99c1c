"""The fleet's database. Callers gather changes (`Fleet.record`, `Fleet.save_rollouts`), so a commit is
for many of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import IntegrityError

from cloud.store.engine import translated, words
from cloud.store.migrating import Migrations
from cloud.store.one_writer import OneWriter
from shared.errors import Conflict

MIGRATIONS: Final = Migrations("cloud.fleet.store", "fleet_schema")


class FleetDatabase(OneWriter):
    """As `OneWriter`. Raises `Conflict`, too, where a constraint of the tables says no."""

    SETTING = "devices.url"
    WHAT = "the fleet's database"
    OWNER = "fleet process"
    MIGRATIONS = MIGRATIONS
    LOCK = 0x6879_666C_6565  # "hyflee"

    @contextmanager
    def _translated(self, where: str) -> Iterator[None]:
        with translated(where):
            try:
                yield
            except IntegrityError as error:
                raise Conflict(f"{where} does not take it: {words(error)}") from error
