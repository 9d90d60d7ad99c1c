"""Play a data set back, at a rate or as fast as it goes; after a restart it goes on."""

import asyncio
import logging
import re
import time
from pathlib import Path

from edge.answers import Cursor, Intake, Sample
from edge.sensing.data_set import DataSet, open_data_set
from edge.sensing.pace import Offload, Pace
from edge.sensing.refusals import Refusals
from edge.telemetry.counters import Counters
from shared.errors import Malformed, TooLarge
from shared.new_ids import new_sample_id

log = logging.getLogger(__name__)

CHUNK = 32  # samples handed over at once: a few milliseconds of a small model
_POSITION = re.compile(r"([0-9]{1,15}):([0-9]{1,15})")


class ReplaySource:
    """`shard` (k, n) plays samples k, k+n, k+2n, ...; `repeat` starts over at the end.

    The schedule is absolute: sample i is due i / rate_per_s seconds after the start, so that late
    ones are made up for and the rate does not drift. The cursor is "lap:turn", the next to play.
    """

    def __init__(
        self,
        path: Path,
        *,
        counters: Counters,
        rate_per_s: float | None = None,
        shard: tuple[int, int] = (0, 1),
        repeat: bool = False,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self.name = f"replay:{path} {shard[0]}/{shard[1]}"
        self._path, self._rate, self._shard, self._repeat = path, rate_per_s, shard, repeat
        self._offload = offload
        self._pace = Pace()
        self._refusals = Refusals(self.name, counters)
        self._refused = set[int]()  # not tried again on the next lap

    def drain(self) -> None:
        self._pace.drain()

    async def run(self, intake: Intake) -> None:
        """Play to the end. Raises `Malformed` when the data set cannot be played at all."""
        shape = intake.manifest.inputs[0].shape
        data = await self._offload(lambda: open_data_set(self._path, shape))
        turns = range(self._shard[0], len(data), self._shard[1])
        if not turns:
            raise Malformed(
                f"{self.name}: {len(data)} samples leave this shard empty; use fewer shards"
            )
        lap, turn = self._resumed(intake.cursor(self.name))
        loop = asyncio.get_running_loop()
        start, played = loop.time(), 0
        while not self._pace.draining:
            if turn >= len(turns):
                if not self._repeat:
                    return
                if len(self._refused) == len(turns):
                    raise Malformed(f"{self.name}: every sample was refused; see the log")
                lap, turn = lap + 1, 0
            count = CHUNK
            if self._rate is not None:
                await self._pace.until(start + played / self._rate)
                if self._pace.draining:
                    return
                due = int((loop.time() - start) * self._rate) + 1 - played
                count = max(1, min(due, CHUNK))
            chunk = turns[turn : turn + count]
            turn, played = turn + len(chunk), played + len(chunk)
            await self._hand_over(intake, data, chunk, f"{lap}:{turn}")
            await asyncio.sleep(0)

    async def _hand_over(self, intake: Intake, data: DataSet, chunk: range, position: str) -> None:
        wanted = [index for index in chunk if index not in self._refused]
        samples = await self._offload(lambda: [self._sample(data, index) for index in wanted])
        good = list[Sample]()
        for index, sample in zip(wanted, samples, strict=True):
            if isinstance(sample, Sample):
                good.append(sample)
            else:
                self._refused.add(index)
                self._refusals.add(data.position(index), sample)
        await intake.take(good, Cursor(self.name, position))

    def _sample(self, data: DataSet, index: int) -> Sample | Exception:
        try:
            tensor = data.read(index)
        except (Malformed, TooLarge, OSError) as error:
            return error
        return Sample(
            id=new_sample_id(),
            tensor=tensor,
            captured_at=time.time(),
            arrived=time.monotonic(),
            origin=f"replay:{self._path.name}",
            position=data.position(index),
        )

    def _resumed(self, position: str | None) -> tuple[int, int]:
        if position is None:
            return 0, 0
        match = _POSITION.fullmatch(position)
        if match is None:
            log.warning(
                "cursor_unreadable",
                extra={"source": self.name, "position": position[:80], "then": "starts over"},
            )
            return 0, 0
        return int(match[1]), int(match[2])
