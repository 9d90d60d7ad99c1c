"""How many workers to want, from what each can answer within the SLA. Pure.

A threshold on CPU use asks "are they busy?", which a batching worker always is near its best point,
and answers in steps after the damage: at 100% nobody knows how much is missing. This asks "how many
does this load need?": each worker's QPS at the SLA is measured (`hybridge capacity measure`), so
the number wanted is a division. Up at once, by doubling at most, since a load that grows has not
said yet where it stops; down one at a time, after a quiet period, since a worker that was let go
takes a minute to come back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.config import Positive, Section

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Workers = Annotated[int, Field(ge=1, le=10_000)]


class Scaling(Section):
    """The policy's settings."""

    qps_at_sla: Positive
    """Requests a second that one worker answers within its p99 target, as measured."""
    load_max: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Share of that which is planned for. Queues grow without bound towards 1; at 0.75 a burst of a
    third more is still within the SLA, at the worker-hours of a 70% CPU threshold (0.8 saves 6% of
    them; `python -m simulations.autoscale_replay`)."""
    workers_min: Workers = 2
    """One may fail or be replaced while the other answers."""
    workers_max: Workers = 20
    """What the budget bears."""
    cooldown_s: Seconds = 300.0
    """Seconds for which fewer must have sufficed before one goes: peaks that come every few
    minutes find the workers of the last one."""
    step_s: Seconds = 60.0
    """Seconds between one that goes and the next, so that what the first does to the others is seen
    before. Five minutes instead cost 45% more worker-hours around a spike, and spared next to
    nothing (`python -m simulations.autoscale_replay`)."""

    @model_validator(mode="after")
    def _bounds_agree(self) -> Self:
        if self.workers_max < self.workers_min:
            raise ValueError(
                f"workers_max {self.workers_max} is below workers_min {self.workers_min}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Load:
    """What was seen in the last period. `qps` counts requests that were refused, too."""

    now_s: float
    qps: float
    ready: int  # workers that take traffic; those that start or load models do not


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the policy holds between two looks.

    `highs`: when which number was needed, of the last `cooldown_s`; falling, as a number that was
    followed by a higher one says nothing any more.
    """

    workers: int
    highs: tuple[tuple[float, int], ...]
    fewer_since_s: float = -math.inf  # when the last one went


def needed(settings: Scaling, qps: float) -> int:
    """Workers that answer `qps` within the SLA, between the minimum and the maximum."""
    number = math.ceil(max(0.0, qps) / (settings.qps_at_sla * settings.load_max) - 1e-9)
    return min(max(number, settings.workers_min), settings.workers_max)


def first(settings: Scaling, qps: float = 0.0, now_s: float = 0.0) -> Wanted:
    number = needed(settings, qps)
    return Wanted(number, ((now_s, number),))


def step(settings: Scaling, before: Wanted, load: Load) -> Wanted:
    """What to want from now on. Called once a period, in the order of time."""
    now_s, number = load.now_s, needed(settings, load.qps)
    recent = (h for h in before.highs if h[1] > number and now_s - h[0] < settings.cooldown_s)
    after = replace(before, highs=(*recent, (now_s, number)))
    if number > before.workers:
        return replace(after, workers=min(number, before.workers * 2))
    if after.highs[0][1] >= before.workers or now_s - before.fewer_since_s < settings.step_s:
        return after
    if load.ready < before.workers:  # some still start, or failed: nobody goes meanwhile
        return after
    return replace(after, workers=before.workers - 1, fewer_since_s=now_s)


def replay(settings: Scaling, loads: Sequence[Load]) -> list[Wanted]:
    """Every step over a recorded trace."""
    if not loads:
        return []
    wanted = [first(settings, loads[0].qps, loads[0].now_s)]
    for load in loads[1:]:
        wanted.append(step(settings, wanted[-1], load))
    return wanted
