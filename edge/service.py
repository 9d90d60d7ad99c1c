"""One agent process: its parts in one TaskGroup, from the lock to the last commit.

Order out: sources, local API, link, journal. A part that dies takes the process down; the
supervisor starts it again, and the journal knows where it was.
"""

import asyncio
import logging
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from edge import api_url
from edge.agent import Agent
from edge.answers import Source
from edge.api.server import build_app, serving
from edge.api.settings import Limits as ApiLimits
from edge.config import Config
from edge.inference.slot import Slot, open_slot
from edge.journal.journal import Journal
from edge.journal.writes import Bounds
from edge.sensing import settings
from edge.sensing.folder import FolderSource
from edge.sensing.replay import ReplaySource
from edge.state_lock import StateLock
from edge.telemetry.counters import Counters
from shared.http_url import http_url

if TYPE_CHECKING:
    from edge.updates.updates import Updates

log = logging.getLogger(__name__)


class Member(Protocol):
    """A part that runs until it is drained."""

    async def run(self) -> None: ...

    def drain(self) -> None: ...


async def run(config: Config, on_ready: Callable[[Agent, str], None]) -> None:
    """Run until SIGTERM or SIGINT; `on_ready` gets the API's URL.

    Raises `InUse` when the state directory or the port is taken, and whatever ends a part.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    with StateLock(config.state_dir):
        slot = await asyncio.to_thread(_open_slot, config)
        agent: Agent | None = None
        try:
            journal = Journal(
                config.state_dir / "state.db",
                Bounds(config.answers.kept_max),
                gap_s_max=config.deadlines.asynchronous_s / 2,
                queued_max=config.answers.in_memory_max,
            )
            counters = Counters()
            rng = random.Random()  # noqa: S311  for audits and jitter, not for secrets
            agent = Agent(config, slot, journal, counters, rng)
            updates = _updates(config, agent)
            members = await _members(config, agent, updates, counters, rng)
            sources = [_source(setting, counters) for setting in config.sources]
            await _parts(config, agent, updates, members, sources, journal, stop, on_ready)
        finally:
            (slot if agent is None else agent.slot).close()


async def _parts(
    config: Config,
    agent: Agent,
    updates: "Updates | None",
    members: "tuple[Member, ...]",
    sources: list[Source],
    journal: Journal,
    stop: asyncio.Event,
    on_ready: Callable[[Agent, str], None],
) -> None:
    async with asyncio.TaskGroup() as parts:
        writing = parts.create_task(journal.run(), name="journal")
        watching = parts.create_task(_watch_callbacks(), name="callbacks")
        if agent.uplink is not None:
            parts.create_task(agent.uplink.run(), name="uplink")
        limits = ApiLimits(wait_ms_max=config.deadlines.full_ms)
        async with serving(
            build_app(agent, agent, limits, updates), config.api.host, config.api.port
        ) as port:
            url = http_url(config.api.host, port)
            api_url.write(config.state_dir, url)
            on_ready(agent, url)
            running = [parts.create_task(source.run(agent)) for source in sources]
            serving_fleet = [parts.create_task(member.run()) for member in members]
            updating = None if updates is None else parts.create_task(updates.run(), name="updates")
            await stop.wait()
            log.info("draining")
            for member in members:
                member.drain()
            await asyncio.gather(*serving_fleet)
            if updates is not None and updating is not None:
                updates.drain()
                await updating
            for source in sources:
                source.drain()
            await asyncio.gather(*running)
            agent.drain()
        if agent.uplink is not None:
            await agent.uplink.drain()
        journal.drain()
        await writing
        watching.cancel()
    log.info("drained", extra={"counts": journal.counts()})


def _open_slot(config: Config) -> Slot:
    """Of the version that updates have brought; without them, of the settings' bundle. Blocking."""

    def opener(path: Path) -> Slot:
        return open_slot(path, config.engine, config.state_dir / "engines")

    if config.updates is None:
        return opener(config.bundle)
    from edge.updates.start import open_active  # noqa: PLC0415  an agent without updates has none

    return open_active(config.state_dir, config.bundle, opener)


def _updates(config: Config, agent: Agent) -> "Updates | None":
    if config.updates is None:
        return None
    from edge.updates.updates import Updates  # noqa: PLC0415  as above

    return Updates(
        config.updates, agent, state_dir=config.state_dir, factory=config.bundle,
        device_id=config.device_id, engine=config.engine,
        follows_fleet=config.fleet is not None,
    )  # fmt: skip


async def _members(
    config: Config,
    agent: Agent,
    updates: "Updates | None",
    counters: Counters,
    rng: random.Random,
) -> tuple[Member, ...]:
    """What the agent has to do with its region besides answers; made before it takes in anything."""
    members: list[Member] = []
    renewing: Member | None = None
    if config.identity is not None:
        from edge.identity.renewing import Renewing  # noqa: PLC0415  loads cryptography

        renewing = Renewing(config.identity, config.device_id, config.state_dir, rng)
        members.append(renewing)
    if config.fleet is not None:
        serial = partial(getattr, renewing, "serial", None)
        from edge.fleet.open import open_fleet  # noqa: PLC0415  as above

        members.append(await open_fleet(config, agent, updates, serial, counters, rng))
    return tuple(members)


def _source(setting: settings.FolderSource | settings.ReplaySource, counters: Counters) -> Source:
    match setting:
        case settings.FolderSource(path=path, interval_s=interval_s, after=after):
            return FolderSource(path, counters=counters, interval_s=interval_s, after=after)
        case settings.ReplaySource(path=path, rate_per_s=rate, repeat=repeat):
            return ReplaySource(
                path, counters=counters, rate_per_s=rate, shard=setting.part, repeat=repeat
            )
        case _:
            assert_never(setting)


async def _watch_callbacks() -> None:
    """Raise what a callback of ours raised: asyncio alone would only log it."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if "handle" in context and isinstance(error, BaseException) and not failed.done():
            failed.set_exception(error)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    await failed
