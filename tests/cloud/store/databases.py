"""The databases that are opened, migrated and tuned by the same code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from cloud.fleet.store import database as fleet
from cloud.fleet.store import schema as fleet_schema
from cloud.registry.store import database as registry
from cloud.registry.store import schema as registry_schema
from cloud.store.migrating import Migrations


@dataclass(frozen=True, slots=True)
class Kind:
    setting: str
    where: str
    """What its errors say it is."""
    make: type[fleet.FleetDatabase] | type[registry.RegistryDatabase]
    migrations: Migrations
    metadata: sa.MetaData
    names: str
    """A table of names and documents."""

    def opened(self, url: str) -> Any:
        database = self.make(url)
        database.open()
        return database

    def put(self, name: str) -> Callable[[sa.Connection], Any]:
        statement = sa.text(f"INSERT INTO {self.names} VALUES (:name, '{{}}')")
        return lambda connection: connection.execute(statement, {"name": name})

    def count(self, database: Any) -> int:
        query = sa.text(f"SELECT count(*) FROM {self.names}")
        return int(database.read(lambda connection: connection.execute(query).scalar()))


KINDS = {
    "fleet": Kind(
        "devices.url", "the fleet's database", fleet.FleetDatabase, fleet.MIGRATIONS,
        fleet_schema.metadata, "fleet_groups",
    ),
    "registry": Kind(
        "catalog.url", "the registry's database", registry.RegistryDatabase, registry.MIGRATIONS,
        registry_schema.metadata, "registry_models",
    ),
}  # fmt: skip
