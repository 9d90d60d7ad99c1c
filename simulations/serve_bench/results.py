"""What a run found, as kept in `build/serve-bench.json`: each part with its own time. Pure."""

import statistics
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from cloud.capacity.load.outcomes import Phase

Part = Literal["cells", "mqtt", "overload", "mixed"]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True)


class Machine(_Kept):
    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    python: str
    versions: dict[str, str]
    """Of what ours is built on and of the load generator, by name."""


class Run(_Kept):
    """One closed-loop run against one server."""

    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    server_cpu_us: float
    """CPU time of all the server's processes, for each answer."""
    other_cores: float
    """Processors' time that neither server nor client had, in processors: the disturbance."""


class Cell(_Kept):
    """The runs of one server at one concurrency, in the order of the rounds."""

    subject: str
    concurrency: int
    runs: tuple[Run, ...]

    def median(self, name: str) -> float:
        """Of one field of the runs."""
        values: list[float] = [getattr(run, name) for run in self.runs]
        return statistics.median(values)


class Subject(_Kept):
    """A server that was measured."""

    name: str
    title: str
    version: str
    is_ours: bool
    is_floor: bool
    is_front: bool
    """Its rounds alternated with ours."""
    started_s: float
    pss_mb: float


class Cells(_Kept):
    measured_at: str
    seconds: int
    """Of each run."""
    subjects: tuple[Subject, ...]
    cells: tuple[Cell, ...]
    absent: dict[str, str]
    """Why a server was not measured, by name."""

    def cell(self, subject: str, concurrency: int) -> Cell | None:
        """Give its cell, if it was measured."""
        return next(
            (c for c in self.cells if c.subject == subject and c.concurrency == concurrency), None
        )

    @property
    def concurrencies(self) -> list[int]:
        return sorted({cell.concurrency for cell in self.cells})


class MqttRun(_Kept):
    """Rate with full windows, and times of a paced load far below it."""

    per_second: float
    p50_ms: float
    p99_ms: float


class MqttPath(_Kept):
    measured_at: str
    devices: int
    paced_per_second: int
    worker: tuple[MqttRun, ...]
    bare: tuple[MqttRun, ...]
    """The same messages, echoed by a subscriber that does nothing else."""


class Overload(_Kept):
    measured_at: str
    model: str
    capacity_per_second: float
    at_80: Phase
    at_200: Phase
    recovered_s: float
    resident_mb: tuple[float, ...]
    """Of the server, twice a second of the overload."""
    growth_mb_per_minute: float
    """Slope of a line through those of the second half."""


class Mixed(_Kept):
    measured_at: str
    online_share: float
    """Of the capacity."""
    online_per_second: float
    alone: tuple[Phase, ...]
    beside: tuple[Phase, ...]
    """Each measured right after, or before, the one of `alone` with its index."""
    batch_per_second: float
    """Samples of the batch, while it ran beside."""


class Results(_Kept):
    """All that is known; a run replaces the parts that it measured."""

    machine: Machine
    cells: Cells | None = None
    mqtt: MqttPath | None = None
    overload: Overload | None = None
    mixed: Mixed | None = None
    failed: dict[Part, str] = {}
    """Why a part that was asked for was not measured."""


def merged(
    old: Results | None, machine: Machine, parts: Iterable[BaseModel], failed: dict[Part, str]
) -> Results:
    """Give what is known after a run."""
    known = {} if old is None else {name: getattr(old, name) for name in _KINDS}
    for part in parts:
        known[next(name for name, kind in _KINDS.items() if isinstance(part, kind))] = part
    for name in failed:
        known[name] = None
    return Results(machine=machine, failed=failed, **known)


_KINDS: dict[Part, type[BaseModel]] = {
    "cells": Cells, "mqtt": MqttPath, "overload": Overload, "mixed": Mixed,
}  # fmt: skip
