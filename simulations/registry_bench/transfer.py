"""Push and fetch of a 200 MB bundle, beside the same bytes put to and got from a plain HTTP server.

Real processes, turn by turn. Hashing on both ends, the fsync of what is promised, and the check of
the whole bundle are the registry's; the plain copy has none of them. Every file is a new one, and none
is removed before the end: memory that was just freed is written to ten times as fast as other.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import aiohttp
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.fetch import fetch_bundle
from cloud.registry.client.push import ensure_model, parcel_of, plan, push
from cloud.registry.documents import ModelVersion, Origin
from shared.bundle.reader import open_bundle

_PIECE = 1024 * 1024
_SETTINGS = 'state_dir = "state"\n[evaluation]\nprocesses = 0\n'


@dataclass(frozen=True, slots=True)
class Transfer:
    """Seconds of each way, medians over the rounds; `ratio` is the plain copy's over ours."""

    what: str
    bytes: int
    plain_s: float
    registry_s: float
    ratio: float  # median of the rounds' own ratios


def measure(base: Path, size: int = 200_000_000, rounds: int = 5) -> list[Transfer]:
    """`base`: a small bundle that a big one is made of, a new one for each round."""
    with tempfile.TemporaryDirectory(prefix="registry-bench-") as name:
        folder = Path(name)
        (folder / "registry.toml").write_text(_SETTINGS)
        (folder / "plain").mkdir()
        ours = [
            sys.executable,
            "-m",
            "cloud",
            "registry",
            "--config",
            str(folder / "registry.toml"),
        ]
        plain = [
            sys.executable,
            "-m",
            "simulations.registry_bench.plain_http",
            str(folder / "plain"),
        ]
        with _running([*ours, "--api-port", "0"]) as said, _running(plain) as plain_url:
            url = str(json.loads(said)["api"])
            return asyncio.run(_rounds(folder, base, url, plain_url, size, rounds))


async def _rounds(
    folder: Path, base: Path, url: str, plain_url: str, size: int, rounds: int
) -> list[Transfer]:
    took: dict[str, list[tuple[float, float]]] = {"push": [], "fetch": []}
    async with RegistryClient([url]) as registry, _session() as session:
        for number in range(rounds):
            path = big_bundle(base, folder / f"bundle-{number}", f"1.0.{number}", size)
            file = max(path.rglob("*"), key=lambda one: one.stat().st_size)
            os.sync()  # what was made just now is not to be written while something is measured
            await ensure_model(registry, "big-model")
            took["push"].append(
                await _both(
                    (
                        partial(_put, session, f"{plain_url}/{number}", file),
                        partial(_push, registry, path),
                    ),
                    number,
                )
            )
            version = (await registry.versions("big-model"))[-1]
            os.sync()
            took["fetch"].append(
                await _both(
                    (
                        partial(_get, session, f"{plain_url}/{number}", folder / f"plain-{number}"),
                        partial(_fetch, registry, version, folder / f"fetched-{number}"),
                    ),
                    number,
                )
            )
    return [
        Transfer(
            what, size, median(p for p, _ in pairs), median(r for _, r in pairs),
            median(p / r for p, r in pairs),
        )
        for what, pairs in took.items()
    ]  # fmt: skip


async def _both(ways: Sequence[Callable[[], Awaitable[None]]], number: int) -> tuple[float, float]:
    """Seconds of the plain way and of ours; who is first changes from round to round."""
    took = [0.0, 0.0]
    for which in (0, 1) if number % 2 else (1, 0):
        began = time.perf_counter()
        await ways[which]()
        took[which] = time.perf_counter() - began
    return took[0], took[1]


async def _push(registry: RegistryClient, path: Path) -> None:
    bundle = await asyncio.to_thread(partial(open_bundle, path, hashes_graphs=False))
    await push(registry, await plan(registry, parcel_of(bundle, path)), Origin(), _nobody)


async def _fetch(registry: RegistryClient, version: ModelVersion, target: Path) -> None:
    await fetch_bundle(registry, version.manifest, target, _nobody)


def _nobody(_: int) -> None:
    """Nobody watches the progress."""


async def _put(session: aiohttp.ClientSession, url: str, file: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                yield piece

    async with session.put(url, data=pieces()) as response:
        response.raise_for_status()


async def _get(session: aiohttp.ClientSession, url: str, target: Path) -> None:
    async with session.get(url) as response:
        response.raise_for_status()
        with target.open("wb") as file:
            while piece := await response.content.read(_PIECE):
                file.write(piece)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))


def big_bundle(base: Path, target: Path, version: str, size: int) -> Path:
    """The bundle at `base`, one variant of it, with a weight of `size` random bytes in its graph."""
    bundle = open_bundle(base)
    manifest = bundle.manifest
    variant = manifest.variants[0]
    graph = onnx.load_from_string(bundle.read(variant.file))
    rng = np.random.default_rng(int(version.rpartition(".")[2]))
    ballast = rng.integers(-127, 127, size, np.int8)
    graph.graph.initializer.append(numpy_helper.from_array(ballast, "ballast"))
    graph.graph.node.append(helper.make_node("Shape", ["ballast"], ["ballast_shape"]))
    graph.graph.value_info.append(
        helper.make_tensor_value_info("ballast_shape", TensorProto.INT64, [1])
    )
    content = graph.SerializeToString()
    target.mkdir()
    file = _written(target, variant.file.path, content)
    big = variant.model_copy(update={"file": variant.file.model_copy(update=file)})
    changed = manifest.model_copy(
        update={"name": "big-model", "version": version, "variants": (big,)}
    )
    for one in changed.files():
        if one != big.file:
            _written(target, one.path, bundle.read(one))
    text = changed.model_dump_json(indent=1)
    (target / "manifest.json").write_text(text)
    return target


def _written(folder: Path, path: str, content: bytes) -> dict[str, object]:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[str]:
    """The first line that it says; ended by SIGTERM."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line, f"{command[2]} did not start"
            yield line
        finally:
            process.terminate()
