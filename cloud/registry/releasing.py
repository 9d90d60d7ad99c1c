"""Releases, retirements and trust metadata: signed and in the catalog together, or neither.

What devices read (the model's role, the snapshot, the timestamp) and what the catalog says of the
version are entries of one transaction. A crash before its commit leaves the old state and an
artifact that nothing needs; after it, the new one. The same request again finds it done.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cloud.registry.catalog.checklist import missing
from cloud.registry.catalog.commands import Release, Retire
from cloud.registry.documents import Evaluation, ModelVersion, State
from cloud.registry.registry import Registry
from cloud.registry.trust import edits
from cloud.registry.trust.repository import Prepared, Repository
from shared.errors import Conflict, Unknown
from shared.trust.chain import epoch_of
from shared.trust.names import model_role

log = logging.getLogger(__name__)

OWN = "registry"
"""The actor of what the registry does of its own accord."""


CARD_BYTES_MAX = 1024**2
"""A model card is read by people."""


class Releasing:
    """Belongs to one event loop."""

    def __init__(self, registry: Registry, trust: Repository) -> None:
        self.trust = trust
        self._registry = registry
        self.released = asyncio.Event()
        """Set after each release: there may be deltas to make."""

    async def checklist(self, model: str, version: str) -> list[str]:
        """What is missing before it may be released; empty when nothing is. Raises `Unknown`."""
        registry, catalog = self._registry, self._registry.catalog
        about = await registry.read(catalog.model, model)
        found = await registry.read(catalog.version, model, version)
        backbone = None
        if found.backbone is not None:
            try:
                named = await registry.read(
                    catalog.version, found.backbone.name, found.backbone.version
                )
                backbone = named.state
            except Unknown:
                backbone = None
        wanted = {found.manifest.sha256, *(file.sha256 for file in found.files)}
        return missing(
            found, about, await self._evaluation(found),
            trust=True,  # the signed metadata comes with the release itself
            card=await self._card(found), backbone=backbone, artifacts_missing=wanted - await registry.artifacts.has(wanted),
        )  # fmt: skip

    async def _card(self, version: ModelVersion) -> str | None:
        """None where it is not here, which the checklist says for itself."""
        try:
            content = await self._registry.artifacts.read(version.card, CARD_BYTES_MAX)
        except Unknown:
            return None
        return content.decode(errors="replace")

    async def release(
        self, command: Release, metadata: Mapping[str, Any] | None, actor: str
    ) -> ModelVersion:
        """`trust_version` and `number` of the command are set here, from what is signed.

        Raises `Conflict` with everything that is missing, and as `Repository.prepare_release`.
        """
        registry = self._registry
        registry.replication.check_writable()
        model, version = command.model, command.version
        async with self.trust.turn:
            found = await registry.read(registry.catalog.version, model, version)
            if await self._is_done(found, metadata):
                return found
            if lacks := await self.checklist(model, version):
                raise Conflict(f"{model} {version} cannot be released: {'; '.join(lacks)}")
            prepared = await self.trust.prepare_release(
                model, version, found.manifest, _content(metadata), self._now()
            )
            _check_signed(prepared, model, version)
            await registry.apply(
                *prepared.commands,
                Release(
                    model, version, command.comment, prepared.versions[model_role(model)],
                    command.revision, prepared.number,
                ),
                actor=actor,
            )  # fmt: skip
            await self.trust.settle(prepared)
        self.released.set()
        return await registry.read(registry.catalog.version, model, version)

    async def retire(
        self, command: Retire, metadata: Mapping[str, Any] | None, actor: str
    ) -> ModelVersion:
        """As `release`, the other way."""
        registry = self._registry
        registry.replication.check_writable()
        model, version = command.model, command.version
        async with self.trust.turn:
            found = await registry.read(registry.catalog.version, model, version)
            if found.state is not State.RELEASED:
                raise Conflict(f"{model} {version} is {found.state}, not released")
            prepared = await self.trust.prepare_retire(
                model, version, _content(metadata), self._now()
            )
            _check_signed(prepared, model, version)
            trust_version = prepared.versions[model_role(model)]
            await registry.apply(
                *prepared.commands,
                Retire(model, version, command.comment, trust_version, command.revision),
                actor=actor,
            )
            await self.trust.settle(prepared)
        return await registry.read(registry.catalog.version, model, version)

    async def publish(self, role: str, metadata: Mapping[str, Any], actor: str) -> Prepared:
        """Metadata from people: published when enough of them have signed, else kept until then.

        Raises as `Repository.prepare`.
        """
        self._registry.replication.check_writable()
        content = _content(metadata)
        assert content is not None
        async with self.trust.turn:
            if role == "root":
                await self._check_epoch(content)
            prepared = await self.trust.prepare({role: content}, self._now())
            await self._settle(prepared, actor)
        return prepared

    async def _check_epoch(self, root: bytes) -> None:
        """Devices and replicas would refuse a home whose log is of an earlier epoch than its root."""
        new = await asyncio.to_thread(edits.read, root, "root", "new root")
        head = await self._registry.read(self._registry.catalog.head)
        if (epoch := epoch_of(new.signed)) != head.epoch:
            raise Conflict(
                f"new root: is of epoch {epoch}, this registry's log of {head.epoch}; a new epoch "
                "begins on a replica, with `hybridge registry promote`"
            )

    async def discard(self, role: str) -> None:
        self._registry.replication.check_writable()
        async with self.trust.turn:
            await self.trust.discard(role)

    async def tick(self) -> datetime:
        """Sign a new timestamp and snapshot where they run out; when they will next.

        Raises as `Repository.prepare_tick`.
        """
        async with self.trust.turn:
            await self._settle(await self.trust.prepare_tick(self._now()), OWN)
            return await self.trust.due(self._now())

    async def _settle(self, prepared: Prepared, actor: str) -> None:
        if not prepared.commands:
            return
        await self._registry.apply(*prepared.commands, actor=actor)
        await self.trust.settle(prepared)
        log.info("trust_published", extra={"versions": dict(prepared.versions), "actor": actor})

    async def _evaluation(self, version: ModelVersion) -> Evaluation | None:
        if version.evaluation is None:
            return None
        return await self._registry.read(self._registry.catalog.evaluation, version.evaluation)

    async def _is_done(self, version: ModelVersion, metadata: Mapping[str, Any] | None) -> bool:
        """Whether this very request was done already, and its answer lost."""
        model = await self._registry.read(self._registry.catalog.model, version.model)
        if version.state is not State.RELEASED or model.current != version.version:
            return False
        if metadata is None:
            return True
        signed = metadata.get("signed")
        asked = signed.get("version") if isinstance(signed, dict) else None
        return bool(version.launches) and version.launches[-1].trust_version == asked

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._registry.now(), UTC)


def _content(metadata: Mapping[str, Any] | None) -> bytes | None:
    return None if metadata is None else json.dumps(metadata).encode()


def _check_signed(prepared: Prepared, model: str, version: str) -> None:
    if not prepared.commands:
        why = "; ".join(f"{one.role}: {one.why}" for one in prepared.waiting)
        raise Conflict(
            f"{model} {version} waits for signatures, and is not changed until then: {why}; have the "
            "next key's holder sign the same metadata and send it again"
        )
