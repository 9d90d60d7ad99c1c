"""A registry as a device sees it (real trust metadata, artifacts, deltas, reports), and a device."""

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from cloud.registry.documents import StoredFile
from cloud.registry.trust import edits
from edge.agent import Agent
from edge.inference.slot import Slot, open_slot
from edge.updates.settings import UpdateSettings
from edge.updates.start import open_active
from edge.updates.state import Phase
from edge.updates.updates import Updates
from shared.bundle.reader import open_bundle
from shared.trust.names import model_role
from tests.edge.stand_in_cloud import agent, config
from tests.shared.fetching.bad_server import BadServer, serving
from tests.shared.trust.site import Site
from tests.tiny_bundle import write_tiny_bundle

WAIT_S = 40.0


@dataclass
class Station(BadServer):
    """Releases bundles of one model."""

    model: str = "tiny-edge"
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    deltas: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    reports: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site = Site(self.now, (self.model,))

    def release(self, folder: Path) -> str:
        """Returns the manifest's hash."""
        bundle = open_bundle(folder)
        manifest = bundle.manifest_bytes
        self.offer(manifest)
        for file in bundle.manifest.files():
            self.offer(bundle.read(file))
        sha256 = hashlib.sha256(manifest).hexdigest()
        role = model_role(self.model)
        content = edits.with_release(
            self.site.newest.get(role), self.model, bundle.manifest.version,
            StoredFile(path="manifest.json", sha256=sha256, bytes=len(manifest)), self.site.now, 365,
        )  # fmt: skip
        self.site.publish({role: edits.sign(content, role, self.site.keys["release"])})
        return sha256

    def serve(self, request: web.Request) -> web.Response:
        path = request.path
        if path.startswith("/tuf/"):
            content = self.site.files.get(path.removeprefix("/tuf/"))
            return web.Response(status=404) if content is None else web.Response(body=content)
        if path.endswith("/deltas"):
            offers = self.deltas.get(path.split("/")[-2], [])
            return web.json_response({"deltas": offers})
        return super().serve(request)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            self.reports.append(json.loads(await request.read()) | {"path": request.path})
            return web.json_response({})
        if request.path.endswith("/deltas"):  # misdeeds are for files
            return self.serve(request)
        return await super().handle(request)

    def asked_for(self, sha256: str) -> int:
        return sum(seen.path.endswith(f"/artifacts/{sha256}") for seen in self.seen)


def settings(station: Station, root: Path, **changes: Any) -> UpdateSettings:
    """Quick, and content with few live samples."""
    (root / "root.json").write_bytes(station.site.root)
    tree: dict[str, Any] = {
        "urls": [station.url], "root": root / "root.json", "poll_s": 3600.0, "backoff_s_min": 0.01,
        "backoff_s_max": 0.05, "trial_s_max": 0.2, "slower_max": 1000.0, "stall_s_max": 5.0,
    }  # fmt: skip
    return UpdateSettings.model_validate(tree | changes)


def bundle(root: Path, version: str, **changes: Any) -> Path:
    return write_tiny_bundle(root / f"made-{version}", version=version, **changes)


@dataclass
class Device:
    agent: Agent
    updates: Updates

    async def reaches(self, *phases: Phase, version: str | None = None) -> None:
        """Wait until the update is in one of these phases (and this version active)."""

        def there() -> bool:
            status = self.updates.status()
            return status.phase in phases and version in (None, status.active.version)

        await self.shows(there)

    async def shows(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():  # noqa: ASYNC110  conditions of many kinds
                await asyncio.sleep(0.005)


@asynccontextmanager
async def device(
    root: Path, station: Station, *, name: str = "device", **changes: Any
) -> AsyncIterator[Device]:
    """A real agent with updates, its state in `root/name`, its factory bundle `root/bundle`.

    `follows`: it follows a fleet; other changes are of the settings.
    """
    if not (root / "bundle").exists():
        write_tiny_bundle(root / "bundle")
    follows = changes.pop("follows", False)
    now = changes.pop("now", None) or (lambda: datetime.now(UTC))
    state_dir = root / name
    state_dir.mkdir(exist_ok=True)

    def opener(path: Path) -> Slot:
        return open_slot(path, "auto", state_dir / "engines")

    slot = await asyncio.to_thread(open_active, state_dir, root / "bundle", opener)
    async with agent(config(state_dir, None, uplink=None), slot) as running:
        updates = Updates(
            settings(station, root, **changes), running, state_dir=state_dir,
            factory=root / "bundle", device_id="cam-1", engine="auto", now=now,
            rng=random.Random(1), follows_fleet=follows,
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(updates.run())
            yield Device(running, updates)
            updates.drain()
            await task
        if running.slot is not slot:
            running.slot.close()


@asynccontextmanager
async def station(**changes: Any) -> AsyncIterator[Station]:
    async with serving(Station(**changes)) as running:
        yield running
