"""Which site each device is at, as the fleet's labels say; kept in the store, so sampling asks nobody."""

from collections.abc import Mapping
from typing import Final, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection

from cloud.store.schema import sites

LENGTH_MAX: Final = 63


class Sites(Protocol):
    """Whoever knows the fleet fills this."""

    async def sites(self) -> Mapping[str, str]:
        """By device its label `site`, of all devices that have one. Raises `Unavailable`."""
        ...


class NoSites:
    """For a region without a fleet."""

    async def sites(self) -> Mapping[str, str]:
        return {}


def keep(connection: Connection, found: Mapping[str, str]) -> int:
    """Take these for those of the devices that they name; how many changed. A device that the fleet
    has forgotten keeps its site: its samples were taken there.
    """
    of = sites.c
    known = dict(connection.execute(sa.select(of.device, of.site)).all())
    new = {
        device: site[:LENGTH_MAX]
        for device, site in found.items()
        if known.get(device, "") != site[:LENGTH_MAX]
    }
    if changed := sorted(new.keys() & known.keys()):
        connection.execute(
            sa.update(sites)
            .where(of.device == sa.bindparam("name"))
            .values(site=sa.bindparam("at")),
            [{"name": device, "at": new[device]} for device in changed],
        )
    if added := sorted(new.keys() - known.keys()):
        connection.execute(
            sa.insert(sites), [{"device": device, "site": new[device]} for device in added]
        )
    return len(new)


def sites_of(connection: Connection, devices: set[str]) -> dict[str, str]:
    """Of these devices; those without one are missing."""
    query = sa.select(sites.c.device, sites.c.site).where(sites.c.device.in_(sorted(devices)))
    return dict(connection.execute(query).all())
