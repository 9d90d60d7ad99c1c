"""What this registry publishes: new metadata made ready as commands for the catalog.

Nothing here changes the catalog. A caller holds `turn`, prepares, applies `Prepared.commands` in
one transaction (with the release that they belong to), and settles:

    async with repository.turn:
        prepared = await repository.prepare_release(...)
        await apply_all([*prepared.commands, Release(...)])
        await repository.settle(prepared)
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cloud.registry.catalog.commands import PublishTrust
from cloud.registry.documents import Head, StoredFile
from cloud.registry.trust import edits, heads, online
from cloud.registry.trust.acceptance import Published, Waiting, admit, judge, not_appointed
from cloud.registry.trust.published_files import (
    Found,
    PublishedFiles,
    TrustArtifacts,
    TrustCatalog,
    off_loop,
    readable_versions,
    versions_of,
)
from cloud.registry.trust.release_changes import check_releases, without_releases
from cloud.registry.trust.settings import TrustSettings
from cloud.registry.trust.staging import Staging
from cloud.registry.trust.status import TrustStatus, status_of
from shared.errors import NotTrusted, Unavailable, Unknown
from shared.trust.names import file_name, model_of, model_role, parse_role
from shared.trust.tuf_api import CryptoSigner, Root
from shared.trust.walk import releases_of

log = logging.getLogger(__name__)
logging.getLogger("tuf").setLevel(logging.WARNING)  # it tells at "info" which key did not sign


@dataclass(frozen=True, slots=True)
class Prepared:
    """To be applied in one transaction, in this order. No commands: nothing is published yet."""

    commands: tuple[PublishTrust, ...]
    versions: Mapping[str, int]  # by role
    waiting: tuple[Waiting, ...] = ()  # staged, for more signatures
    number: int | None = None  # of the release that it names


class Repository:
    """Belongs to one event loop. Raises `Unavailable` from anywhere while a store is away."""

    def __init__(
        self,
        settings: TrustSettings,
        catalog: TrustCatalog,
        artifacts: TrustArtifacts,
        folder: Path,
        signers: Mapping[str, CryptoSigner],
    ) -> None:
        """`folder`: for staged files, this registry's own. `signers`: by key id, from
        `load_signers`; a replica has none.
        """
        self.turn = asyncio.Lock()
        self._settings = settings
        self._artifacts = artifacts
        self._files = PublishedFiles(catalog, artifacts)
        self._staging = Staging(folder / "staged", settings.staged_max)
        self._signers = dict(signers)
        self._root: Root | None = None

    async def start(self) -> None:
        """Read the root, so that `sign_head` can be called. One that was lost stops nobody from
        starting: a replica gets it from its home again, and each tick looks once more.
        """
        try:
            found = await self._files.metadata("root")
        except (Unavailable, NotTrusted) as error:
            log.error("root_of_trust_not_read", extra={"why": str(error)})  # noqa: TRY400  the chain is in it
            return
        self._root = None if found is None else found.signed

    async def prepare(self, handed_in: Mapping[str, bytes], now: datetime) -> Prepared:
        """Metadata by role, from people: staged until signed by enough, then ready all together.

        Of a model's role only its signatures and expiry may change here; a release has its own way.
        Raises `Malformed`, `TooLarge`, `NotTrusted`, `Conflict`, `Overloaded`.
        """
        waiting = await off_loop(self._staging.read)
        found = await self._files.read({parse_role(role) for role in handed_in} | set(waiting))
        staged = await self._clean(found.published)
        gone = {
            role: await self._files.retired(model)
            for role in {*handed_in, *staged}
            if (model := model_of(role)) is not None
        }
        for role in sorted(
            handed_in, key=lambda role: (model_of(role) is not None, role != "root")
        ):
            content = await off_loop(admit, handed_in[role], role, found.published, staged, now)
            if (model := model_of(role)) is not None:
                after = await off_loop(edits.read, content, role, role)
                before = found.published.models.get(role)
                check_releases(before, after, model, gone=gone[role])
            staged[role] = content
        for role in handed_in:
            await off_loop(self._staging.write, role, staged[role])
        mine = await off_loop(without_releases, staged, found.published, gone)
        verdict = await off_loop(judge, found.published, mine, set(self._signers), now)
        ready = {role: mine[role] for role in verdict.ready}
        if not ready:
            return Prepared((), {}, verdict.waiting)
        return await self._ready(found, ready, now, waiting=verdict.waiting)

    async def prepare_release(
        self,
        model: str,
        version: str,
        manifest: StoredFile,
        metadata: bytes | None,
        now: datetime,
    ) -> Prepared:
        """A model's role that names this version as its newest. `metadata`: signed by the operator;
        None: this registry signs, where it has a release key.

        Raises as `prepare`; `NotTrusted` without metadata and without the key.
        """
        role = model_role(model)
        found = await self._files.read({role})
        if metadata is None:
            before, gone = await self._files.newest(role), await self._files.retired(model)
            metadata = await off_loop(
                lambda: edits.with_release(
                    before, model, version, manifest, now, self._settings.model_days, gone=gone
                )
            )
            metadata = await off_loop(self._sign_release, metadata, role, found.published)
        return await self._change(found, model, metadata, now, releasing=(version, manifest))

    async def prepare_retire(
        self, model: str, version: str, metadata: bytes | None, now: datetime
    ) -> Prepared:
        """As `prepare_release`, without this version."""
        role = model_role(model)
        found = await self._files.read({role})
        if metadata is None:
            before, gone = await self._files.newest(role), await self._files.retired(model)
            if before is None:
                raise Unknown(f"{role}: nothing of {model} is released")
            metadata = await off_loop(
                lambda: edits.without_release(
                    before, model, version, now, self._settings.model_days, gone=gone
                )
            )
            metadata = await off_loop(self._sign_release, metadata, role, found.published)
        return await self._change(found, model, metadata, now, retiring=version)

    async def prepare_tick(self, now: datetime) -> Prepared:
        """A new timestamp, and snapshot, where the published ones run out or fit no more.

        Raises `Unknown` before the first root, `NotTrusted` without the online keys.
        """
        found = await self._files.read(set())
        self._root = None if found.published.root is None else found.published.root.signed
        return await self._ready(found, {}, now)

    async def settle(self, prepared: Prepared) -> None:
        """After the commands have been applied: what was staged for them is done with."""
        for role in prepared.versions:
            await off_loop(self._staging.remove, role)
        if "root" in prepared.versions:
            await self.start()

    async def discard(self, role: str) -> None:
        """Forget what is staged for a role."""
        await off_loop(self._staging.remove, parse_role(role))

    async def staged(self, role: str) -> bytes | None:
        """What is staged for a role, for the next who is to sign it; None: nothing is."""
        return (await off_loop(self._staging.read)).get(parse_role(role))

    async def due(self, now: datetime) -> datetime:
        """When `prepare_tick` will have something to do."""
        return online.due(await self._files.newest("timestamp"), self._settings, now)

    async def root(self) -> bytes | None:
        """The newest published root; None before the first."""
        return await self._files.newest("root")

    def sign_head(self, head: Head) -> str:
        """As the home; from any thread, after `start`. Raises `NotTrusted` without the root's
        snapshot keys, `Unknown` before the first root.
        """
        root = self._root
        if root is None:
            raise Unknown("no root of trust is here; hand in the first root and targets")
        return heads.sign_head(
            head, edits.signers_of(root.roles["snapshot"], self._signers, "log head")
        )

    async def status(self, now: datetime) -> TrustStatus:
        """For people and metrics: every published role, soonest expiry first, and what is staged."""
        found = await self._files.read(set(), all_models=True)
        staged = await self._clean(found.published)
        return await off_loop(status_of, found, staged, set(self._signers), now)

    async def _change(
        self,
        found: Found,
        model: str,
        metadata: bytes,
        now: datetime,
        *,
        releasing: tuple[str, StoredFile] | None = None,
        retiring: str | None = None,
    ) -> Prepared:
        role, published = model_role(model), found.published
        staged = await self._clean(published)
        content = await off_loop(admit, metadata, role, published, staged, now)
        after = await off_loop(edits.read, content, role, role)
        before = published.models.get(role)
        gone = await self._files.retired(model)
        check_releases(before, after, model, releasing=releasing, retiring=retiring, gone=gone)
        numbers = {one.version: one.number for one in releases_of(after.signed, model)}
        number = None if releasing is None else numbers[releasing[0]]
        verdict = await off_loop(judge, published, {role: content}, set(self._signers), now)
        if not verdict.ready:
            await off_loop(self._staging.write, role, content)
            return Prepared((), {}, verdict.waiting, number)
        return await self._ready(found, {role: content}, now, number=number)

    async def _ready(
        self,
        found: Found,
        ready: Mapping[str, bytes],
        now: datetime,
        *,
        waiting: tuple[Waiting, ...] = (),
        number: int | None = None,
    ) -> Prepared:
        """The commands for these roles, and the snapshot and timestamp that go with them."""
        if "root" in ready:
            root: Root = edits.read(ready["root"], "root", "root").signed
        elif found.published.root is not None:
            root = found.published.root.signed
        else:
            raise Unknown("no root of trust is here; hand in the first root and targets")
        changed = {role: content for role, content in ready.items() if role != "root"}
        files = dict(ready) | await off_loop(
            lambda: online.resigned(
                root,
                changed,
                found.snapshot,
                found.timestamp,
                self._signers,
                self._settings,
                now,
                root_changed="root" in ready,
            )
        )
        commands, versions = [], await off_loop(versions_of, files)
        for role in sorted(files, key=_order):
            content, version = files[role], versions[role]
            sha256 = await self._artifacts.put_bytes(content)
            file = StoredFile(path=file_name(role, version), sha256=sha256, bytes=len(content))
            commands.append(PublishTrust(role, version, file))
        return Prepared(tuple(commands), versions, waiting, number)

    def _sign_release(self, content: bytes, role: str, published: Published) -> bytes:
        delegations = None if published.targets is None else published.targets.signed.delegations
        if delegations is None or not delegations.roles or role not in delegations.roles:
            raise not_appointed(role)
        holders = delegations.roles[role]
        return edits.sign(content, role, edits.signers_of(holders, self._signers, role))

    async def _clean(self, published: Published) -> dict[str, bytes]:
        """What is staged, less what has been published since (a crash before `settle`) and what
        the disk broke: people hand that in again.
        """
        staged = await off_loop(self._staging.read)
        versions = await off_loop(readable_versions, staged)
        for role in list(staged):
            before = published.of(role)
            last = 0 if before is None else before.signed.version
            if versions.get(role, 0) <= last:
                await off_loop(self._staging.remove, role)
                del staged[role]
        return staged


def _order(role: str) -> tuple[int, str]:
    """The root after what it vouches for; the timestamp, which leads to all, at last."""
    last = {"targets": 1, "snapshot": 2, "root": 3, "timestamp": 4}
    return last.get(role, 0), role
