"""The demo's shell: start everything, stream the images three times, gather, end everything."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import aiohttp
import numpy as np
from numpy.typing import NDArray

from cloud.demo.processes import Running, running, while_running
from cloud.demo.seen import Seen
from cloud.demo.stream import Application
from cloud.demo.verdict import Verdict, judge
from shared.bundle.manifest import Manifest
from shared.errors import Malformed, Unknown

AGENTS = 3


@dataclass(frozen=True, slots=True)
class Images:
    images: NDArray[np.uint8]  # [N, 28, 28]
    labels: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    models: Path  # holds both bundles and the images
    folder: Path  # for configurations, logs and state
    rate_per_s: float
    broker: str  # "embedded" or "mosquitto"


def load_images(path: Path) -> Images:
    """Raises `Unknown` when the file is not there, `Malformed` when it is something else."""
    if not path.exists():
        raise Unknown(f"{path} is not here; run the demo in a checkout, or name --models")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Images(arrays["images"], arrays["labels"].astype(np.int64))
    except (KeyError, ValueError, TypeError, EOFError, BadZipFile) as error:
        problem = f"{path}: does not hold `images` and `labels`; restore it from the repository"
        raise Malformed(problem) from error


async def run(
    plan: Plan,
    data: Images,
    say: Callable[[str], None],
    progress: Callable[[str], Callable[[], None]],
) -> Verdict:
    """Three passes, one for each way; `progress(title)` gives a function that is called once an image is done."""
    async with AsyncExitStack() as stack:
        say("starting broker and cloud worker")
        cloud = await stack.enter_async_context(_cloud(plan))
        say(f"cloud worker {cloud.ready['api']}, broker {cloud.ready['broker']}")
        uplink = f'[uplink]\nurl = "{cloud.ready["broker"]}"\n'
        ways = {
            "edge only": "",
            "cloud only": _ALWAYS + uplink,
            "hybrid": uplink,
        }
        seen, lost = list[Seen](), Counter[str]()
        for way, settings in ways.items():
            answering = _pass(plan, data, way, settings, progress(way))
            answers, ledger = await while_running(answering, [cloud])
            seen.append(answers)
            lost.update(ledger)
    never, always, hybrid = seen
    return judge(data.labels, never, always, hybrid, dict(lost))


_ALWAYS = """[routing]
confidence_min = 1.01
payload = "zstd"
fusion = false
"""


@asynccontextmanager
async def _cloud(plan: Plan) -> AsyncGenerator[Running]:
    config = plan.folder / "cloud.toml"
    config.write_text(
        f'state_dir = "cloud"\n[[models]]\nbundle = "{_toml(plan.models / "fashion-cloud")}"\n'
        f'[broker]\nkind = "{plan.broker}"\n'
    )
    arguments = ("-m", "cloud", "serve", "--config", str(config))
    async with running("cloud", arguments, plan.folder) as process:
        yield process


async def _pass(
    plan: Plan, data: Images, way: str, settings: str, on_done: Callable[[], None]
) -> tuple[Seen, dict[str, int]]:
    bundle = plan.models / "fashion-edge"
    manifest = Manifest.model_validate_json((bundle / "manifest.json").read_bytes())
    async with AsyncExitStack() as stack:
        started = await asyncio.gather(*[
            stack.enter_async_context(running(agent, arguments, plan.folder))
            for agent, arguments in _agents(plan, way.replace(" ", "-"), bundle, settings)
        ])  # fmt: skip
        agents = [agent.ready["api"] for agent in started]
        if "[uplink]" in settings:
            await _linked(agents)
        application = Application(agents, manifest.name, data.images, on_done)
        seen = await while_running(application.run(plan.rate_per_s), started)
        return seen, await _lost(agents)


def _agents(
    plan: Plan, name: str, bundle: Path, settings: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number in range(1, AGENTS + 1):
        agent = f"{name}-{number}"
        config = plan.folder / f"{agent}.toml"
        config.write_text(
            f'device_id = "{agent}"\nstate_dir = "{agent}"\nbundle = "{_toml(bundle)}"\n{settings}'
        )
        yield agent, ("-m", "edge", "run", "--config", str(config))


async def _linked(agents: list[str]) -> None:
    """Wait until every agent has its link: the demo measures answers, not start-up."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as http:
        for agent in agents:
            while not (await _status(http, agent))["link_up"]:  # noqa: ASYNC110  another process's state
                await asyncio.sleep(0.05)


async def _lost(agents: list[str]) -> dict[str, int]:
    total: dict[str, int] = {}
    async with aiohttp.ClientSession() as http:
        for agent in agents:
            ledger = (await _status(http, agent))["ledger"]
            assert isinstance(ledger, dict)
            for reason, count in ledger.items():
                total[reason] = total.get(reason, 0) + count
    return total


async def _status(http: aiohttp.ClientSession, agent: str) -> dict[str, object]:
    async with http.get(f"{agent}/v1/status") as response:
        document: dict[str, object] = await response.json()
        return document


def _toml(path: Path) -> str:
    return str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"')
