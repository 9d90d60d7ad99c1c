"""Make a fenced home, or a replica whose log forked, a replica again. Never by itself: a person asks.

What only this registry has is written aside first; then its catalog is set aside as a whole, and the
log of the home is pulled from its beginning. Artifacts stay: they are the same by their hashes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import make_url

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.config import RegistryConfig
from cloud.registry.documents import Head
from cloud.registry.replication import replication
from cloud.registry.replication.divergence import fork_of, write_aside
from cloud.registry.replication.one_at_a_time import one_at_a_time
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.replication.role_settings import current_role
from cloud.registry.replication.trusted_root import TrustedRoot
from cloud.registry.store.database import RegistryDatabase
from shared.api_key import key_in
from shared.errors import Conflict, Malformed, Unavailable
from shared.trust.names import ROOT_BYTES_MAX
from shared.trust.pinned_root import read_pinned_root


@dataclass(frozen=True, slots=True)
class Rejoined:
    home: str
    fork_seq: int
    divergent: Path | None  # the file with the entries that only this registry had
    entries: int  # in it
    catalog: Path | None  # where the old catalog lies now


async def rejoin(
    config: RegistryConfig, homes: Sequence[str], now: datetime, *, is_dry_run: bool = False
) -> Rejoined:
    """With this registry stopped. `homes`: the new home's URLs, first the one to ask; empty: whom
    it was told when it was fenced. `is_dry_run`: only find out what would be.

    Raises `Conflict` (this is a home that nobody took over from), `Unavailable` (the new home does
    not answer), `NotTrusted`, `Malformed`, `InUse`.
    """
    roles = RoleFile(config.state_dir)
    role = current_role(roles, config.home)
    urls = tuple(homes) or role.homes
    if not urls:
        raise Malformed("nobody has told this registry of a new home; name it: --home URL")
    folder = config.state_dir / replication.FOLDER
    database = RegistryDatabase(config.catalog_url)
    await asyncio.to_thread(database.open)
    with (
        one_at_a_time(folder, "rejoining", "running"),
        one_at_a_time(folder, "rejoining"),
    ):
        try:
            catalog = Catalog(database, config.catalog)
            head = await asyncio.to_thread(catalog.head)
            root = await _root(config, catalog, folder)
            key = key_in(config.home.key_file if config.home else config.peers.key_file)
            async with Peer(
                urls[0], key, wait_s_max=config.peers.timeout_s, answer_bytes_max=32 * 1024**2
            ) as peer:
                await root.walk(peer.root)
                if role.role == "home" and root.epoch <= head.epoch:
                    raise Conflict(
                        f"this registry is home of epoch {head.epoch}, and {urls[0]} has no verified "
                        "root of a higher one: promote that one first (hybridge registry promote)"
                    )
                fork = await fork_of(catalog, peer, root)
            if is_dry_run:
                return Rejoined(urls[0], fork, None, head.seq - fork, None)
            divergent, entries = None, 0
            if fork < head.seq:
                divergent, entries = await asyncio.to_thread(write_aside, catalog, fork, folder)
        finally:
            database.close()
        aside = _set_aside(config, head) if fork < head.seq else None
        (folder / "signed_head.json").unlink(missing_ok=True)
        new = RegionRole(
            role="replica", epoch=root.epoch, homes=urls, since=now.astimezone(UTC).timestamp(),
            why=f"rejoined {urls[0]}", divergent=str(divergent) if divergent else role.divergent,
            fork_seq=fork,
        )  # fmt: skip
        roles.write(new)
    return Rejoined(urls[0], fork, divergent, entries, aside)


async def _root(config: RegistryConfig, catalog: Catalog, folder: Path) -> TrustedRoot:
    kept = folder / "root.json"
    if kept.exists():
        return TrustedRoot(kept, kept.read_bytes())
    if config.home is not None:
        return TrustedRoot(kept, read_pinned_root(config.home.root, "home.root"))
    first = await asyncio.to_thread(catalog.trust_file, "root", 1)
    artifacts = Artifacts(config.artifacts, config.state_dir)
    return TrustedRoot(kept, await artifacts.read(first.sha256, ROOT_BYTES_MAX))


def _set_aside(config: RegistryConfig, head: Head) -> Path:
    """The whole database under another name. Raises `Conflict` for one that is no file of ours."""
    url = make_url(config.catalog_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise Conflict(
            "catalog.url: this database holds entries that the home does not have. They are written "
            "aside; create an empty database, name it in catalog.url, and rejoin again"
        )
    old = Path(url.database)
    new = old.with_name(f"{old.name}.epoch-{head.epoch}-entry-{head.seq}")
    try:
        for suffix in ("-wal", "-shm", ""):  # the database itself at last: until then it is one
            part = Path(f"{old}{suffix}")
            if part.exists():
                part.rename(f"{new}{suffix}")
    except OSError as error:
        raise Unavailable(f"{old}: {error.strerror}") from error
    return new
