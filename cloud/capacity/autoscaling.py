"""How many workers to want, from what each can answer within the SLA. Pure.

A threshold on CPU use asks "are they busy?", which a batching worker always is near its best point,
and answers in steps after the damage. This asks "how many does this load need?": each worker's QPS
at the SLA is measured (`hybridge capacity measure`), so the number wanted is a division. Up at once,
by doubling at most, since a load that grows has not said yet where it stops; down one at a time,
after a quiet period, since a worker that was let go takes minutes to come back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from shared.config import Positive, Section


class Scaling(Section):
    """The policy's settings."""

    qps_at_sla: Positive
    """Requests a second that one worker answers within its p99 target, as measured."""
    load_max: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of that which is planned for. Queues grow without bound towards 1; at 0.8 a burst of a
    quarter more is still within the SLA."""
    workers_min: Annotated[int, Field(ge=1)] = 2
    """One may fail or be replaced while the other answers."""
    workers_max: Annotated[int, Field(ge=1)] = 20
    """What the budget bears."""
    cooldown_s: Annotated[float, Field(ge=0)] = 300.0
    """Seconds for which fewer must suffice before one goes, and between one and the next."""


@dataclass(frozen=True, slots=True)
class Load:
    """What was seen in the last period. `qps` counts requests that were refused, too."""

    now_s: float
    qps: float
    ready: int  # workers that take traffic; those that start or load models do not


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the policy holds between two looks."""

    workers: int
    lower_since_s: float | None = None  # since when fewer would have sufficed


def needed(settings: Scaling, qps: float) -> int:
    """Workers that answer `qps` within the SLA, between the minimum and the maximum."""
    number = math.ceil(max(0.0, qps) / (settings.qps_at_sla * settings.load_max) - 1e-9)
    return min(max(number, settings.workers_min), settings.workers_max)


def step(settings: Scaling, before: Wanted, load: Load) -> Wanted:
    """What to want from now on. Called once a period, in the order of time."""
    number = needed(settings, load.qps)
    if number > before.workers:
        return Wanted(min(number, before.workers * 2, settings.workers_max))
    if number == before.workers:
        return Wanted(before.workers)
    since_s = load.now_s if before.lower_since_s is None else before.lower_since_s
    if load.now_s - since_s < settings.cooldown_s:
        return Wanted(before.workers, since_s)
    if load.ready < before.workers:  # some still start: nobody goes before they are there
        return Wanted(before.workers, since_s)
    return Wanted(before.workers - 1, load.now_s)


def first(settings: Scaling, qps: float = 0.0) -> Wanted:
    return Wanted(needed(settings, qps))


def replay(settings: Scaling, loads: Sequence[Load]) -> list[Wanted]:
    """Every step over a recorded trace."""
    wanted = [first(settings, loads[0].qps if loads else 0.0)]
    for load in loads[1:]:
        wanted.append(step(settings, wanted[-1], load))
    return wanted
