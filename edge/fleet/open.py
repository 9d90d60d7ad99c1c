"""A fleet's member put together from the agent's settings."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from edge.agent import Agent
from edge.config import Config
from edge.fleet import kept_file
from edge.fleet.asks import LINE_CHARS_MAX
from edge.fleet.fleet import Fleet
from edge.fleet.inventory import inventory
from edge.telemetry.counters import Counters
from shared.backoff import Jitter
from shared.fleet.asking import LINES_MAX
from shared.logs import NewestLines

if TYPE_CHECKING:
    from edge.updates.updates import Updates


async def open_fleet(
    config: Config,
    agent: Agent,
    updates: "Updates | None",
    serial: Callable[[], str | None],
    counters: Counters,
    rng: Jitter,
) -> Fleet:
    """Before anything is taken in; from here on the newest log lines are kept in memory."""
    lines = NewestLines(LINES_MAX, LINE_CHARS_MAX)
    logging.getLogger().addHandler(lines)
    kept = await asyncio.to_thread(kept_file.load, config.state_dir, time.time())
    zone = None if config.updates is None else config.updates.time_zone
    look = partial(inventory, config.state_dir, zone)
    return Fleet(config, agent, updates, kept, look, serial, lines, counters, rng)
