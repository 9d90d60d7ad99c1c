"""Four agents on this machine, each with the frames that it sees; two of them are the group north."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from cloud.demo.drift import settings_files as files
from cloud.demo.drift.region import Region
from cloud.demo.drift.scene import CLEAN, DRIFTING
from cloud.demo.drift.settings_files import quoted
from cloud.demo.processes import Running, running
from cloud.fleet.client.client import FleetClient

GROUP = "north"
_APPEAR_S = 30.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Cameras:
    agents: Mapping[str, Running]

    async def drifted(self) -> int:
        """Samples that the drifting cameras have taken since the shift, all together."""
        taken = 0
        async with aiohttp.ClientSession() as http:
            for name in DRIFTING:
                async with http.get(f"{self.agents[name].ready['api']}/v1/status") as answer:
                    counters = (await answer.json())["counters"]
                taken += max(int(counters.get("recorded", 0)) - CLEAN, 0)
        return taken

    async def versions(self) -> dict[str, str]:
        """What each really runs, by its own word."""
        found = {}
        async with aiohttp.ClientSession() as http:
            for name, agent in self.agents.items():
                async with http.get(f"{agent.ready['api']}/v1/updates") as answer:
                    found[name] = str((await answer.json())["active"]["version"])
        return found


@asynccontextmanager
async def cameras(
    region: Region, edge: Path, frames: Mapping[str, Path], rate_per_s: float
) -> AsyncGenerator[Cameras]:
    """Running, known to the fleet, and grouped by their site. `rate_per_s`: frames of each."""
    async with FleetClient([region.fleet]) as fleet:
        await fleet.put_group(GROUP, f"site={GROUP}", 100, 0)
        await fleet.put_group("south", "site=south", 100, 0)
        async with AsyncExitStack() as stack:
            started = await asyncio.gather(*[
                stack.enter_async_context(
                    running(name, ("-m", "edge", "run", "--config", str(config)), region.folder)
                )
                for name, config in _configs(region, edge, frames, rate_per_s)
            ])  # fmt: skip
            agents = {agent.name: agent for agent in started}
            async with asyncio.timeout(_APPEAR_S):
                for name in agents:
                    await _appeared(fleet, name)
                    await fleet.label(name, {"site": name.partition("-")[0]})
            yield Cameras(agents)


async def _appeared(fleet: FleetClient, name: str) -> None:
    while all(one.id != name for one in await fleet.devices()):  # noqa: ASYNC110  another process's state
        await asyncio.sleep(_LOOK_S)


def _configs(
    region: Region, edge: Path, frames: Mapping[str, Path], rate_per_s: float
) -> list[tuple[str, Path]]:
    configs = []
    for name, path in frames.items():
        config = region.folder / f"{name}.toml"
        config.write_text(files.AGENT.format(
            name=name, bundle=quoted(edge), broker=region.broker, registry=region.registry,
            keys=quoted(region.keys / "api"), root=quoted(region.root), frames=quoted(path),
            rate=float(rate_per_s),
        ))  # fmt: skip
        configs.append((name, config))
    return configs
