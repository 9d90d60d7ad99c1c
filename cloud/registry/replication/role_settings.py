"""Which role counts, and what a replica follows: the settings, and on top what was switched since."""

from pathlib import Path

from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.replication.settings import HomeSettings, PeerSettings
from shared.errors import Malformed


def current_role(file: RoleFile, home: HomeSettings | None) -> RegionRole:
    """Raises `Malformed`, `Unavailable`."""
    found = file.read()
    if found is None:
        if home is None:
            return RegionRole(role="home")
        return RegionRole(role="replica", homes=home.urls)
    if found.role == "replica" and not found.homes and home is not None:
        return found.model_copy(update={"homes": home.urls})
    return found


def followed(
    role: RegionRole, home: HomeSettings | None, peers: PeerSettings, root: Path
) -> HomeSettings:
    """What a replica follows: its settings; a home that rejoined has none, so whom it was told.

    `root`: the trusted root that is kept. Raises `Malformed` where nobody is named.
    """
    if home is not None and set(role.homes) <= set(home.urls):
        return home
    urls = tuple(dict.fromkeys([*role.homes, *(home.urls if home else ()), *peers.urls]))
    if not urls:
        raise Malformed("role.json says replica and names no home; set home.urls")
    if home is not None:
        return home.model_copy(update={"urls": urls[:16]})
    return HomeSettings(urls=urls[:16], root=root, key_file=peers.key_file)
