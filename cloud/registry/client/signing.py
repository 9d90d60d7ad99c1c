"""Signed metadata for a change, made where the keys are: read from the registry, edited, signed."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from cloud.registry.client.client import RegistryClient
from cloud.registry.documents import ModelVersion, State
from cloud.registry.trust import edits
from shared.errors import NotTrusted, Unknown
from shared.trust.names import (
    ROOTS_MAX,
    SNAPSHOT_BYTES_MAX,
    TIMESTAMP_BYTES_MAX,
    bytes_max,
    file_name,
    model_role,
)
from shared.trust.signature import write_signature

RELEASE_DAYS: Final = 365.0
"""For which a model's releases are believed, unless the signer says otherwise."""


async def published(registry: RegistryClient, role: str) -> bytes | None:
    """The newest published metadata of `root`, `targets` or a model's role; None where there is none.

    Checked for form alone: whoever signs looks at what he signs, and the registry and every device
    check all signatures.
    """
    if role == "root":
        roots = [content async for content in _roots(registry)]
        return roots[-1] if roots else None
    content = await registry.trust_file("timestamp.json", TIMESTAMP_BYTES_MAX)
    if content is None:
        return None
    timestamp = edits.read(content, "timestamp", "timestamp.json").signed
    name = file_name("snapshot", timestamp.snapshot_meta.version)
    content = await registry.trust_file(name, SNAPSHOT_BYTES_MAX)
    if content is None:
        raise Unknown(f"{name}: the registry names it and has it not; ask again")
    meta = edits.read(content, "snapshot", name).signed.meta.get(f"{role}.json")
    if meta is None:
        return None
    name = file_name(role, meta.version)
    content = await registry.trust_file(name, bytes_max(role))
    if content is None:
        raise Unknown(f"{name}: the registry names it and has it not; ask again")
    return content


async def next_release(
    registry: RegistryClient, version: ModelVersion, now: datetime, days: float = RELEASE_DAYS
) -> bytes:
    """The model's role with this version as its newest release, to be signed; those that are
    retired it leaves out. Raises `NotTrusted` where nobody was appointed to sign it.
    """
    await _check_delegated(registry, version.model)
    before = await published(registry, model_role(version.model))
    return edits.with_release(
        before, version.model, version.version, version.manifest, now, days,
        gone=await _retired(registry, version.model),
    )  # fmt: skip


async def next_retirement(
    registry: RegistryClient, version: ModelVersion, now: datetime, days: float = RELEASE_DAYS
) -> bytes:
    """The model's role without this version and those retired before, to be signed. Raises
    `Unknown` where it names none.
    """
    before = await published(registry, model_role(version.model))
    if before is None:
        raise Unknown(f"{version.model} {version.version}: no signed metadata names it")
    return edits.without_release(
        before, version.model, version.version, now, days,
        gone=await _retired(registry, version.model),
    )  # fmt: skip


async def _retired(registry: RegistryClient, model: str) -> set[str]:
    return {one.version for one in await registry.versions(model) if one.state is State.RETIRED}


async def _check_delegated(registry: RegistryClient, model: str) -> None:
    content = await published(registry, "targets")
    delegations = None
    if content is not None:
        delegations = edits.read(content, "targets", "targets").signed.delegations
    if delegations is None or model_role(model) not in (delegations.roles or {}):
        raise NotTrusted(
            f"no key may name releases of {model} yet; have it appointed: `hybridge registry keys "
            f"delegate {model} --to release.pub --sign-with targets.pem`"
        )


async def bundle_signature(registry: RegistryClient, model: str, version: str) -> bytes:
    """What proves the released bundle offline (`shared/trust/signature.py`). Raises `Unknown`."""
    roots = [content async for content in _roots(registry)]
    targets = await published(registry, "targets")
    role = await published(registry, model_role(model))
    if not roots or targets is None or role is None:
        raise Unknown(f"{model} {version}: no signed metadata names it")
    return write_signature(model, version, roots, targets, role)


async def _roots(registry: RegistryClient) -> AsyncIterator[bytes]:
    """Every one that is published, in order."""
    for version in range(1, ROOTS_MAX + 1):
        name = file_name("root", version)
        content = await registry.trust_file(name, bytes_max("root"))
        if content is None:
            return
        if edits.read(content, "root", name).signed.version != version:
            raise NotTrusted(f"{name}: holds another version")
        yield content
