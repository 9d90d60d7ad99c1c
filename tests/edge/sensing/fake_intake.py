"""An intake that keeps its promise: samples and cursor are recorded together, or neither."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from edge.answers import Answer, Cursor, Intake, Sample
from shared.errors import Malformed
from tests.edge.api.fake_agent import SIDE, manifest

T = TypeVar("T")


class PowerCut(Exception):
    """The process ends here."""


@dataclass
class Record:
    """What survives the process."""

    samples: list[Sample] = field(default_factory=list)
    cursors: dict[str, str] = field(default_factory=dict)

    @property
    def positions(self) -> list[str]:
        return [sample.position for sample in self.samples]


class FakeIntake:
    """Cuts the power after `cut_after` samples, before or after a chunk reaches the record."""

    def __init__(
        self,
        record: Record | None = None,
        *,
        cut_after: int | None = None,
        cut_in_durable: bool = False,
        on_take: Callable[["FakeIntake"], None] = lambda _: None,
    ) -> None:
        self.manifest = manifest()
        self.record = record or Record()
        self.taken_at: list[float] = []
        self._cut_after, self._cut_in_durable = cut_after, cut_in_durable
        self._on_take = on_take

    def cursor(self, source: str) -> str | None:
        return self.record.cursors.get(source)

    async def take(self, samples: Sequence[Sample], cursor: Cursor | None = None) -> list[Answer]:
        await asyncio.sleep(0)
        for sample in samples:
            if sample.tensor.shape != (SIDE, SIDE) or sample.tensor.dtype != np.uint8:
                raise Malformed(f"tensor is {sample.tensor.dtype}{sample.tensor.shape}")
        if self._cut_after is not None and len(self.record.samples) >= self._cut_after:
            raise PowerCut
        self.record.samples += samples
        self.taken_at += [asyncio.get_running_loop().time()] * len(samples)
        if cursor is not None:
            assert len(cursor.position.encode()) <= 64 * 1024
            self.record.cursors[cursor.source] = cursor.position
        self._on_take(self)
        return []

    async def durable(self) -> None:
        await asyncio.sleep(0)
        if self._cut_in_durable:
            raise PowerCut


async def inline(work: Callable[[], T]) -> T:
    """An executor for virtual time."""
    return work()


def _keeps_the_protocols(intake: FakeIntake) -> tuple[Intake, Callable[..., Awaitable[object]]]:
    return intake, inline
