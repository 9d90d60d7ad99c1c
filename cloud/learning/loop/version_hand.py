"""Commands for the registry."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.job_bundles import JobBundles
from cloud.learning.loop.numbers import next_version
from cloud.learning.neighbours import registry_at
from cloud.learning.settings import LearningRegistry
from cloud.registry.client import push
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.signing import next_release, published
from cloud.registry.documents import Evaluation, ModelVersion, Origin, State
from cloud.registry.trust import edits
from cloud.registry.trust.keys import load_signer, read_password
from shared.bundle.reader import open_bundle
from shared.errors import Conflict, Malformed, Unavailable, Unknown
from shared.trust.names import model_role
from shared.trust.tuf_api import CryptoSigner

_OVER = frozenset({State.REJECTED, State.RETIRED})


class VersionHand:
    def __init__(self, settings: LearningRegistry | None, made: JobBundles) -> None:
        self._settings, self._made = settings, made

    async def current(self, model: str) -> str | None:
        async with self._registry() as registry:
            return (await registry.model(model)).current

    async def chosen(self, command: c.Choose) -> e.Chosen:
        async with self._registry() as registry:
            before = await _current(registry, command.model)
            teacher = await _current(registry, command.teacher)
            taken = [one.version for one in await registry.versions(command.model)]
        try:
            return e.Chosen(before, teacher, next_version(before, taken))
        except OverflowError as error:
            raise Conflict(f"{command.model}: {error}") from error

    async def evaluated(self, command: c.Evaluate) -> e.EvaluationSeen:
        """The newest evaluation of the version, or a new one: it has one cycle, and needs no other.

        Raises `Conflict` where somebody else pushed another bundle by this number meanwhile: the
        cycle's figures are not about that one.
        """
        async with self._made.archive(command.job) as archive:
            parcel = await _parcel(archive)
            async with self._registry() as registry:
                await _push(registry, parcel, command.job)
                there = await registry.evaluations(command.model, command.version)
                if there:
                    return _seen(max(there, key=lambda one: (one.queued_at, one.id)))
                return _seen(await registry.evaluate(command.model, command.version))

    async def evaluation(self, command: c.WatchEvaluation) -> e.EvaluationSeen:
        async with self._registry() as registry:
            return _seen(await registry.evaluation(command.evaluation))

    async def approved(self, command: c.Approve) -> e.VersionSeen:
        async with self._registry() as registry:
            seen, found = await _version(registry, command.model, command.version)
            if seen.is_approved or seen.needs_nobody or seen.state is not State.CANDIDATE:
                return seen
            async with of_revision(registry, found):
                await registry.judge(
                    "approve", command.model, command.version, command.comment, found.revision
                )
            return (await _version(registry, command.model, command.version))[0]

    async def released(self, command: c.Release) -> e.VersionSeen:
        """Signed with this process's key, or by the registry where that has one."""
        async with self._registry() as registry:
            seen, found = await _version(registry, command.model, command.version)
            if seen.state is not State.CANDIDATE:
                return seen
            signed = await self._metadata(registry, found)
            async with of_revision(registry, found), of_releases(registry, command.model, signed):
                await registry.launch(
                    "release", command.model, command.version, command.comment,
                    None if signed is None else json.loads(signed), found.revision,
                )  # fmt: skip
            return (await _version(registry, command.model, command.version))[0]

    async def version(self, command: c.WatchVersion) -> e.VersionSeen:
        async with self._registry() as registry:
            return (await _version(registry, command.model, command.version))[0]

    async def rejected(self, command: c.Reject) -> e.CleanedUp:
        """Nothing that somebody else pushed by this number."""
        async with self._registry() as registry:
            try:
                found = await registry.version(command.model, command.version)
            except Unknown:  # it was never pushed
                return e.CleanedUp()
        if found.state in _OVER:
            return e.CleanedUp()
        where = f"{command.model} {command.version}"
        async with self._made.archive(command.job) as archive:
            is_ours = (await _parcel(archive)).manifest_sha256 == found.manifest.sha256
        if not is_ours:
            return e.CleanedUp(
                f"{where} in the registry is not of job {command.job}, and stays as it is"
            )
        async with self._registry() as registry:
            try:
                async with of_revision(registry, found):
                    await registry.judge(
                        "reject", command.model, command.version, command.why, found.revision
                    )
            except Conflict as error:
                return e.CleanedUp(f"{where} stays as it is: {error}")
        return e.CleanedUp(f"{where} is rejected in the registry")

    async def _metadata(self, registry: RegistryClient, version: ModelVersion) -> bytes | None:
        """Signed; None: the registry signs. Raises `Malformed` where nobody may."""
        settings = self._settings
        assert settings is not None
        if settings.release_key is None:
            if settings.registry_signs:
                return None
            raise Malformed("this process has no [registry] release_key, so a person releases")
        signer = await asyncio.to_thread(_signer, settings.release_key, settings.password_file)
        content = await next_release(registry, version, datetime.now(UTC), settings.release_days)
        return edits.sign(content, model_role(version.model), [signer])

    @asynccontextmanager
    async def _registry(self) -> AsyncIterator[RegistryClient]:
        if self._settings is None:
            raise Malformed("[registry] is not set: a loop needs one, with urls and api_key_file")
        async with registry_at(self._settings) as registry:
            yield registry


@asynccontextmanager
async def of_revision(registry: RegistryClient, seen: ModelVersion) -> AsyncIterator[None]:
    """Raises `Unavailable` where somebody spoke since it was seen: it is looked at again."""
    try:
        yield
    except Conflict as error:
        after = await registry.version(seen.model, seen.version)
        if after.revision != seen.revision:
            raise Unavailable(str(error)) from error
        raise


@asynccontextmanager
async def of_releases(
    registry: RegistryClient, model: str, signed: bytes | None
) -> AsyncIterator[None]:
    """Raises `Unavailable` where releases of the model changed since this metadata was made of them: it
    is made anew.
    """
    try:
        yield
    except Conflict as error:
        role = model_role(model)
        newest = await published(registry, role)
        if _number(newest, role) >= _number(signed, role) > 0:
            raise Unavailable(str(error)) from error
        raise


def _number(metadata: bytes | None, role: str) -> int:
    return 0 if metadata is None else edits.read(metadata, role, role).signed.version


async def _push(registry: RegistryClient, parcel: push.Parcel, job: str) -> None:
    """Run again after a cut it goes on where it was."""
    planned = await push.plan(registry, parcel)
    await push.push(registry, planned, Origin(training_job=job), lambda _: None)


async def _parcel(archive: Path) -> push.Parcel:
    opened = await asyncio.to_thread(open_bundle, archive)
    return await asyncio.to_thread(push.parcel_of, opened, archive)


async def _current(registry: RegistryClient, model: str) -> str:
    found = (await registry.model(model)).current
    if found is None:
        raise Conflict(f"{model} has no released version to begin from; release one first")
    return found


async def _version(
    registry: RegistryClient, model: str, version: str
) -> tuple[e.VersionSeen, ModelVersion]:
    found, asked = await registry.version(model, version), await registry.model(model)
    approval = found.approval
    is_approved = approval is not None and approval.seq >= asked.gate_revision
    needs_nobody = asked.gate.approval == "rule"
    return e.VersionSeen(found.state, is_approved, found.why[:500], needs_nobody), found


def _seen(found: Evaluation) -> e.EvaluationSeen:
    return e.EvaluationSeen(found.id, found.state, found.why[:500])


def _signer(path: Path, password_file: Path | None) -> CryptoSigner:
    return load_signer(path, None if password_file is None else read_password(password_file, {}))
