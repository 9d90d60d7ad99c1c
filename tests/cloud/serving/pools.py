"""Real, tiny bundles in a folder, and a pool over them."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from cloud.serving.loading import resident_bytes
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from tests.tiny_bundle import sure_image, write_tiny_bundle

FASHION_CLOUD = Path(__file__).parents[3] / "models" / "fashion-cloud"
ENGINE = ("onnxruntime", "int8")
SHIFT = {"1.0.0": 1, "2.0.0": 2}
"""What each version of a tiny model adds to the label, so its answers say who gave them."""


def tiny(folder: Path, name: str = "tiny", version: str = "1.0.0", **bundle: object) -> Path:
    settings = {"escalates": False, "shift": SHIFT.get(version, 0), **bundle}
    path = folder / f"{name}-{version}"
    return write_tiny_bundle(path, name=name, version=version, **settings)  # type: ignore[arg-type]


def fashion(folder: Path, version: str) -> Path:
    """The real cloud model under another version: about 0.4 ms a row, so its batches need a thread."""
    path = folder / f"fashion-cloud-{version}"
    shutil.copytree(FASHION_CLOUD, path)
    manifest = json.loads((path / "manifest.json").read_text())
    (int8,) = [v for v in manifest["variants"] if (v["engine"], v["precision"]) == ENGINE]
    for file in path.glob("*.onnx"):
        if file.name != int8["file"]["path"]:
            file.unlink()
    changed = {**manifest, "version": version, "variants": [int8]}
    (path / "manifest.json").write_text(json.dumps(changed))
    return path


@asynccontextmanager
async def running(
    *bundles: Path | ModelSettings,
    folder: Path | None = None,
    now: Callable[[], float] = time.monotonic,
    quiet: bool = False,
    process_bytes: Callable[[], int] | None = None,
    **settings: object,
) -> AsyncIterator[ModelPool]:
    """A started pool; `bundles` are the configuration's, `settings` those of `PoolSettings`.

    `quiet`: the process says that it never grows, so a model is taken to occupy its weights.
    """
    models = [b if isinstance(b, ModelSettings) else ModelSettings(bundle=b) for b in bundles]
    scratch = tempfile.TemporaryDirectory()
    pool = ModelPool(
        models,
        pool=PoolSettings.model_validate({"folder": folder, **settings}),
        batching=Batching(size_max=8, depth_max=4096),
        cache_dir=Path(scratch.name),
        process_bytes=process_bytes or ((lambda: 0) if quiet else resident_bytes),
        now=now,
    )  # fmt: skip
    try:
        await pool.start()
        yield pool
    finally:
        await pool.close()
        scratch.cleanup()


def play(scenario: Callable[[], Awaitable[None]], s_max: float = 60.0) -> None:
    async def main() -> None:
        async with asyncio.timeout(s_max):
            await scenario()

    asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    """Round after round of the loop; whoever hangs is cut by the scenario's timeout."""
    while not true():  # noqa: ASYNC110  what is waited for sets no event
        await asyncio.sleep(0)


async def label(served: Served, of: int = 0) -> int:
    """What it answers to a sure image of label `of`."""
    deadline = asyncio.get_running_loop().time() + 60
    ran = await served.batcher.infer(sure_image(of)[None], deadline)
    return int(np.argmax(ran.outputs.logits[0]))
