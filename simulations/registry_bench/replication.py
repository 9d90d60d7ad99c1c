"""How far a replica is behind its home while a thousand changes are made, and how soon a new one is there.

    python -m simulations.registry_bench.replication

A home and a replica as processes of their own on this machine. A change's lag is from the home's
answer to who made it, until an answer of the replica's log holds it; both by one clock.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import numpy as np

from cloud.demo.processes import Running, running
from cloud.registry.trust.ceremony import initialise

CHANGES = 1_000
_MODELS = 50
_WRITERS = 4


@dataclass(frozen=True, slots=True)
class Lag:
    """Seconds and milliseconds, over `changes` changes by `writers` callers at once."""

    changes: int
    writers: int
    per_s: float  # changes that the home took
    p50_ms: float
    p99_ms: float
    max_ms: float
    behind_s: float  # from the last change's answer until the replica has all
    fresh_s: float  # an empty replica, from its readiness until it has all


def measure(changes: int = CHANGES) -> Lag:
    """Takes about twenty seconds."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), changes))


async def _measure(folder: Path, changes: int) -> Lag:
    keys = folder / "keys"
    ceremony = initialise(keys, datetime.now(UTC))
    _configure(folder, "home", '[trust]\nonline_keys = "keys/online"\n')
    async with (
        running("home", _arguments(folder, "home"), folder) as home,
        aiohttp.ClientSession(home.ready["api"]) as http,
    ):
        for role, content in (("root", ceremony.root), ("targets", ceremony.targets)):
            await _put(http, "POST", f"/v1/trust/{role}", {"metadata": json.loads(content)})
        start = (await _log(http, 0, 0.0))[-1]
        follows = f'[home]\nurls = ["{home.ready["api"]}"]\nroot = "keys/1.root.json"\n'
        _configure(folder, "near", follows)
        async with running("near", _arguments(folder, "near"), folder) as near:
            lag = await _lag(http, near, start, changes)
        _configure(folder, "fresh", follows)
        async with running("fresh", _arguments(folder, "fresh"), folder) as fresh:
            began = time.perf_counter()
            arrived = await _arrivals(fresh, 0, start + changes)
            fresh_s = max(arrived.values()) - began
    return Lag(*lag, fresh_s=fresh_s)


async def _lag(
    http: aiohttp.ClientSession, near: Running, start: int, changes: int
) -> tuple[int, int, float, float, float, float, float]:
    await _arrivals(near, 0, start)
    watching = asyncio.create_task(_arrivals(near, start, start + changes))
    made: dict[int, float] = {}
    todo = iter(range(changes))
    began = time.perf_counter()
    await asyncio.gather(*(_write(http, todo, made) for _ in range(_WRITERS)))
    ended = time.perf_counter()
    arrived = await watching
    lags = np.array([arrived[seq] - at for seq, at in sorted(made.items())]) * 1e3
    p50, p99 = np.percentile(lags, [50, 99])
    return (
        len(made), _WRITERS, len(made) / (ended - began), float(p50), float(p99),
        float(lags.max()), max(0.0, max(arrived.values()) - ended),
    )  # fmt: skip


async def _write(http: aiohttp.ClientSession, todo: Iterator[int], made: dict[int, float]) -> None:
    for number in todo:
        path = f"/v1/models/model-{number % _MODELS}"
        found = await _put(http, "PUT", path, {"owner": f"team-{number}"})
        revision = found["revision"]
        assert isinstance(revision, int)
        made[revision] = time.perf_counter()


async def _arrivals(replica: Running, after: int, last: int) -> dict[int, float]:
    """When each entry was first seen in the replica's log."""
    arrived: dict[int, float] = {}
    async with aiohttp.ClientSession(replica.ready["api"]) as http:
        while after < last:
            seqs = await _log(http, after, 10.0)
            at = time.perf_counter()
            arrived.update(dict.fromkeys(seqs, at))
            after = max([after, *seqs])
    return arrived


async def _log(http: aiohttp.ClientSession, after: int, wait_s: float) -> list[int]:
    query = f"after={after}&limit=500&wait_s={wait_s}"
    async with http.get(f"/v1/log?{query}") as response:
        if response.status == 503:  # it has heard of no home yet
            await asyncio.sleep(0.01)
            return []
        response.raise_for_status()
        return [entry["seq"] for entry in (await response.json())["entries"]]


async def _put(
    http: aiohttp.ClientSession, method: str, path: str, document: object
) -> dict[str, object]:
    async with http.request(method, path, json=document) as response:
        found: dict[str, object] = await response.json()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {found}")
        return found


def _configure(folder: Path, name: str, more: str) -> None:
    (folder / f"{name}.toml").write_text(
        f'name = "{name}"\nstate_dir = "{name}"\nlog_level = "error"\n[api]\nport = 0\n'
        f"[evaluation]\nprocesses = 0\n{more}"
    )


def _arguments(folder: Path, name: str) -> tuple[str, ...]:
    return ("-m", "cloud", "registry", "--config", str(folder / f"{name}.toml"))


def main() -> None:
    found = measure()
    print(
        f"{found.changes} changes by {found.writers} callers: {found.per_s:.0f}/s at the home; a "
        f"replica's lag p50 {found.p50_ms:.0f} ms, p99 {found.p99_ms:.0f} ms, max "
        f"{found.max_ms:.0f} ms; {found.behind_s:.2f} s behind after the last; an empty replica has "
        f"all in {found.fresh_s:.1f} s"
    )


if __name__ == "__main__":
    main()
