"""Make a replica the home: a new root with a higher epoch and new online keys, then the role.

The order stands a kill at any step: the new keys, then the log (the promotion, the root, a snapshot
and a timestamp in one transaction), then `role.json`. Whoever runs it again goes on from there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import Promote
from cloud.registry.config import RegistryConfig
from cloud.registry.documents import Head
from cloud.registry.replication import replication
from cloud.registry.replication.before_promotion import Circumstances, losses, never
from cloud.registry.replication.one_at_a_time import one_at_a_time
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.replication.role_settings import current_role, followed
from cloud.registry.replication.settings import HomeSettings
from cloud.registry.replication.signed_heads import SignedHeadFile
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.trust import edits
from cloud.registry.trust.ceremony import ROOT_DAYS
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.keys import create_key, load_signer, load_signers, read_password
from cloud.registry.trust.repository import Repository
from shared.api_key import key_in
from shared.disk import write_whole
from shared.errors import Conflict, HybridgeError, Malformed, NotTrusted
from shared.trust.chain import Chain, epoch_of
from shared.trust.names import ROOT_BYTES_MAX
from shared.trust.tuf_api import CryptoSigner, Root

_ONLINE = ("snapshot", "timestamp")


@dataclass(frozen=True, slots=True)
class Promotion:
    """What was done; with `dry_run` what would be."""

    epoch: int
    seq: int  # of the first entry of the epoch
    root_version: int
    lost: tuple[str, ...]
    done: bool


async def promote(
    config: RegistryConfig,
    root_keys: Sequence[CryptoSigner],
    *,
    actor: str,
    comment: str,
    environment: Mapping[str, str],
    now: datetime,
    force: bool = False,
    dry_run: bool = False,
) -> Promotion:
    """On the replica's own machine; its registry may run, and becomes home within `peers.look_s`.

    `root_keys`: of the present root, as many as it needs. Raises `Conflict` (no replica, or not
    caught up; `force` accepts what it says is lost), `NotTrusted` (too few root keys), `Malformed`
    (no `trust.online_keys` to put the new keys in), `InUse`, `Unavailable`.
    """
    online = config.trust.online_keys
    if online is None:
        raise Malformed(
            "trust.online_keys is not set: name a folder there for the keys that the new home signs "
            "with; this makes them"
        )
    password = read_password(config.trust.password_file, environment)
    database = RegistryDatabase(config.catalog_url)
    await asyncio.to_thread(database.open)
    try:
        catalog = Catalog(database, config.catalog)
        artifacts = Artifacts(config.artifacts, config.state_dir)
        folder = config.state_dir / replication.FOLDER
        with one_at_a_time(folder, "promotion"):
            return await _promote(
                _Here(config, catalog, artifacts, folder, online, password), root_keys, actor,
                comment, now, force=force, dry_run=dry_run,
            )  # fmt: skip
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class _Here:
    config: RegistryConfig
    catalog: Catalog
    artifacts: Artifacts
    folder: Path
    online: Path
    password: bytes | None


async def _promote(
    here: _Here,
    root_keys: Sequence[CryptoSigner],
    actor: str,
    comment: str,
    now: datetime,
    *,
    force: bool,
    dry_run: bool,
) -> Promotion:
    roles = RoleFile(here.config.state_dir)
    role = current_role(roles, here.config.home)
    head = await asyncio.to_thread(here.catalog.head)
    published = await _newest_root(here)
    root = Chain(published).root
    held = await asyncio.to_thread(_signers_here, here)
    if role.role == "replica" and _is_ours(root, held) and epoch_of(root) == head.epoch > 1:
        await _switch(here, roles, published, head, now)  # it was killed after the log was written
        return Promotion(head.epoch, head.seq, root.version, (), done=True)
    found = await _circumstances(here, role, head, root)
    if (why := never(found)) is not None:
        raise Conflict(why)
    lost = losses(found)
    epoch = head.epoch + 1
    keys = {key.public_key.keyid: key for key in root_keys}
    signers = edits.signers_of(root.roles["root"], keys, f"root {root.version}")
    if dry_run:
        return Promotion(epoch, head.seq + 1, root.version + 1, lost, done=False)
    if lost and not force:
        raise Conflict(f"to promote this replica now would lose {'; '.join(lost)}. --force does it")
    new = await asyncio.to_thread(_new_keys, here, epoch)
    holders = {name: Holders((key.public_key,)) for name, key in new.items()}
    content = edits.next_root(published, now, ROOT_DAYS, holders=holders, epoch=epoch)
    content = edits.sign(content, "root", signers)
    repository = Repository(
        here.config.trust, here.catalog, here.artifacts, here.config.state_dir / "trust",
        held | {key.public_key.keyid: key for key in new.values()},
    )  # fmt: skip
    async with repository.turn:
        await repository.discard("root")
        prepared = await repository.prepare({"root": content}, now)
        if "root" not in prepared.versions:
            raise NotTrusted("; ".join(f"{one.role}: {one.why}" for one in prepared.waiting))
        await asyncio.to_thread(
            here.catalog.apply_all, [Promote(epoch, comment), *prepared.commands], actor,
            now.timestamp(),
        )  # fmt: skip
        await repository.settle(prepared)
    after = await asyncio.to_thread(here.catalog.head)
    await _switch(here, roles, content, after, now)
    return Promotion(epoch, head.seq + 1, root.version + 1, lost, done=True)


async def _switch(here: _Here, roles: RoleFile, root: bytes, head: Head, now: datetime) -> None:
    await asyncio.to_thread(write_whole, here.folder / "root.json", root)
    role = RegionRole(
        role="home", epoch=head.epoch, since=now.astimezone(UTC).timestamp(),
        why=f"promoted to epoch {head.epoch}",
    )  # fmt: skip
    await asyncio.to_thread(roles.write, role)


async def _newest_root(here: _Here) -> bytes:
    """Of the log, or verified since. Raises `Unknown` where there is none yet."""
    file = await asyncio.to_thread(here.catalog.trust_file, "root", None)
    return await here.artifacts.read(file.sha256, ROOT_BYTES_MAX)


async def _circumstances(here: _Here, role: RegionRole, head: Head, root: Root) -> Circumstances:
    needed = await asyncio.to_thread(here.catalog.needed_artifacts)
    missing = len(needed - await here.artifacts.stored())
    signed = await asyncio.to_thread(SignedHeadFile(here.folder / "signed_head.json").read)
    newest = max(head.seq, signed.newest if signed else 0)
    homes, ahead = [], []
    root_epoch = epoch_of(root)
    kept = here.folder / "root.json"
    if kept.exists():
        root_epoch = max(root_epoch, epoch_of(Chain(kept.read_bytes()).root))
    if role.role == "replica":
        home = followed(role, here.config.home, here.config.peers, kept)
        for url, is_home, last in await _asked(here, home, head):
            newest = max(newest, last)
            homes += [url] if is_home else []
            ahead += [url] if last > head.seq else []
    return Circumstances(
        role=role.role, seq=head.seq, epoch=head.epoch, root_epoch=root_epoch, newest=newest,
        ahead=tuple(ahead), homes=tuple(homes), artifacts_missing=missing,
    )  # fmt: skip


async def _asked(here: _Here, home: HomeSettings, head: Head) -> list[tuple[str, bool, int]]:
    """Of each registry that answers: its URL, whether it is home, its last entry."""
    timeout_s, key = here.config.peers.timeout_s, key_in(home.key_file)

    async def ask(url: str) -> tuple[str, bool, int] | None:
        try:
            async with (
                asyncio.timeout(timeout_s),
                Peer(
                    url, key, wait_s_max=timeout_s, answer_bytes_max=home.answer_bytes_max
                ) as peer,
            ):
                is_home = await peer.is_home()
                return url, is_home, (await peer.log(head.seq, 1000, 0.0)).newest
        except (HybridgeError, TimeoutError):
            return None

    found = await asyncio.gather(*(ask(url) for url in home.urls))
    return [one for one in found if one is not None]


def _signers_here(here: _Here) -> dict[str, CryptoSigner]:
    if not any(here.online.glob("*.pem")):
        return {}
    return load_signers(here.online, here.password)


def _is_ours(root: Root, held: Mapping[str, CryptoSigner]) -> bool:
    """Whether this registry holds the online keys that the root names."""
    return all(set(root.roles[name].keyids) <= set(held) for name in _ONLINE)


def _new_keys(here: _Here, epoch: int) -> dict[str, CryptoSigner]:
    """Made once for an epoch; those of a promotion that was cut short are used again."""
    keys: dict[str, CryptoSigner] = {}
    for name in _ONLINE:
        path = here.online / f"{name}-epoch-{epoch}.pem"
        if path.exists():
            keys[name] = load_signer(path, here.password)
        else:
            keys[name] = create_key(path, here.password)
    return keys
