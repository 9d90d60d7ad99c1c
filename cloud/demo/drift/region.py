"""A whole region on this machine: registry, worker with its broker, fleet, learning, train worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cloud.demo.drift import settings_files as files
from cloud.demo.drift.command import Hybridge, hybridge
from cloud.demo.drift.settings_files import quoted
from cloud.demo.processes import Running, running
from shared.bundle.reader import open_bundle

EDGE, CLOUD = "fashion-edge", "fashion-cloud"
GATE = "clean"
CLEAN_LOSS_MAX = 0.007


@dataclass(frozen=True, slots=True)
class Region:
    folder: Path
    registry: str
    """URLs, as the others below."""
    broker: str
    fleet: str
    learning: str
    keys: Path
    root: Path
    processes: tuple[Running, ...]


@asynccontextmanager
async def region(
    folder: Path, edge: Path, cloud: Path, gate: Path, say: Callable[[str], None]
) -> AsyncGenerator[Region]:
    """Up, with both bundles released and a gate on clean images set. `gate`: a data set's file."""
    async with AsyncExitStack() as stack:

        async def start(name: str, *arguments: str | Path) -> Running:
            command = ("-m", "cloud", *map(str, arguments))
            return await stack.enter_async_context(running(name, command, folder))

        place = folder / "registry"
        keys = place / "keys"
        await hybridge("registry", "init", place, "--port", "0")
        said = await hybridge(
            "key", "add", place / "api-keys.jsonl", "learning", "--role", "trainer", "--role",
            "approver", "--role", "operator",
        )  # fmt: skip
        (folder / "learning.key").write_text(said)
        with (place / "registry.toml").open("a") as settings:
            settings.write(files.EVALUATION)
        registry = await start("registry", "registry", "--config", place / "registry.toml")
        url = registry.ready["api"]
        say(f"registry {url}")
        places = {
            "registry": url, "keys": quoted(keys / "api"), "root": quoted(keys / "1.root.json"),
            "release": quoted(keys / "release.pem"), "folder": quoted(folder),
            "model": quoted(cloud),
        }  # fmt: skip

        async def configured(name: str, command: str, settings: str, **more: str) -> Running:
            config = folder / f"{name}.toml"
            config.write_text(settings.format(**places, **more))
            return await start(name, command, "--config", config)

        releasing = asyncio.ensure_future(_released(Hybridge(url, keys), keys, edge, cloud, gate))
        try:
            worker = await configured("cloud", "serve", files.CLOUD)
            broker = worker.ready["broker"]
            fleet = await configured("fleet", "fleet", files.FLEET, broker=broker)
            await releasing
        finally:
            releasing.cancel()
        say(
            f"both models are released; the gate: at most {CLEAN_LOSS_MAX:.1%} lost on clean images"
        )
        learning = await configured(
            "learning", "learning", files.LEARNING, fleet=fleet.ready["api"],
            serving=worker.ready["api"],
        )  # fmt: skip
        trainer = await start("train-worker", "train-worker", "--config", folder / "learning.toml")
        say("worker with its broker, fleet, learning and train worker are up")
        yield Region(
            folder, url, broker, fleet.ready["api"], learning.ready["api"], keys,
            keys / "1.root.json", (registry, worker, fleet, learning, trainer),
        )  # fmt: skip


async def _released(ask: Hybridge, keys: Path, edge: Path, cloud: Path, gate: Path) -> None:
    """Both models, whose keys release.pem are: the cloud's is whose labels will teach."""
    await ask.ask(
        "operator", "registry", "keys", "publish", keys / "1.root.json", keys / "1.targets.json"
    )
    await ask.ask(
        "operator", "registry", "keys", "delegate", EDGE, CLOUD, "--to", keys / "release.pub",
        "--sign-with", keys / "targets.pem",
    )  # fmt: skip
    await ask.ask("trainer", "data-set", "push", GATE, gate)
    await ask.ask(
        "approver", "model", "gate", EDGE, "--rules", f"accuracy >= current - {CLEAN_LOSS_MAX}",
        "--data-set", GATE, "--approval", "rule",
    )  # fmt: skip
    await ask.ask("approver", "model", "gate", CLOUD, "--approval", "rule")
    for model, bundle in ((EDGE, edge), (CLOUD, cloud)):
        version = open_bundle(bundle, hashes_graphs=False).manifest.version
        await ask.ask("trainer", "model", "push", bundle, "--wait")
        await ask.ask(
            "operator", "model", "release", model, version, "-m", "the first", "--sign-with",
            keys / "release.pem",
        )  # fmt: skip
