"""A job's bundle into the registry, as the worker's key."""

import asyncio
import logging
from pathlib import Path

from cloud.registry.client import push as pushes
from cloud.registry.client.client import RegistryClient
from cloud.registry.documents import ModelVersion, Origin
from cloud.training.worker.bundles import client
from cloud.training.worker.settings import WorkerRegistry
from shared.bundle.files import MANIFEST
from shared.bundle.reader import open_bundle
from shared.errors import Conflict, Malformed, Unknown

log = logging.getLogger(__name__)


async def push(
    settings: WorkerRegistry | None, bundle: Path, job: str, begun_with: str | None
) -> str:
    """Run again after a cut it goes on where it was. `begun_with`: `name@version` of the bundle that
    this one was made from; it is the parent where the registry has it under the same name.

    What the registry has of this very job stays: an attempt before pushed it, and nobody was told, be it
    that the answer was lost or that the worker had to end. Returns that in words where this one is
    another (of a newer program, or another CPU); else nothing.

    Raises `Malformed` where there is no registry, and what the registry refuses with.
    """
    asks = registry_of(settings)
    if asks.push_key_file is not None:
        asks = asks.model_copy(update={"api_key_file": asks.push_key_file})
    opened = await asyncio.to_thread(open_bundle, bundle)
    parcel = await asyncio.to_thread(pushes.parcel_of, opened, bundle)
    async with client(asks) as registry:
        await pushes.ensure_model(registry, parcel.manifest.name)
        parent = await _parent(registry, parcel.manifest.name, begun_with)
        origin = Origin(training_job=job, parent=parent)
        try:
            planned = await pushes.plan(registry, parcel)
            version = await pushes.push(registry, planned, origin, lambda _: None)
        except Conflict:
            before = await _pushed_before(registry, parcel, job)
            if before is None:
                raise
            version = before
    log.info(
        "bundle_pushed", extra={"model": version.model, "version": version.version, "job": job}
    )
    if version.manifest.sha256 == parcel.manifest_sha256:
        return ""
    return (
        f"an attempt before pushed {version.model} {version.version}, which stays in the registry "
        f"({MANIFEST} {version.manifest.sha256[:16]}...); the one made again "
        f"({parcel.manifest_sha256[:16]}...) is only an artifact of this run"
    )


def registry_of(settings: WorkerRegistry | None) -> WorkerRegistry:
    """Raises `Malformed` where there is none."""
    if settings is None:
        raise Malformed(
            "push: this worker has no [worker.registry]; add it, or submit without push and push the "
            "bundle by hand (`hybridge model push`)"
        )
    return settings


async def _pushed_before(
    registry: RegistryClient, parcel: pushes.Parcel, job: str
) -> ModelVersion | None:
    """None: what the registry has by this number, if anything, is not of this job, or was deleted."""
    try:
        there = await registry.version(parcel.manifest.name, parcel.manifest.version)
    except Unknown:
        return None
    return there if there.origin.training_job == job and not there.deleted else None


async def _parent(registry: RegistryClient, model: str, begun_with: str | None) -> str | None:
    """A worker's own folder may have had it, and no registry."""
    name, _, version = (begun_with or "").partition("@")
    if name != model:
        return None
    try:
        return (await registry.version(model, version)).version
    except Unknown:
        return None
