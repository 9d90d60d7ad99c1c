"""The way through a batch: rows from inputs, batches to the model, answers into parts.

The shapes differ in who answers and in what may hold a batch back; both are handed in. Batches are
cut by the order of rows alone, never by time, so that a rerun cuts them in the same places.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cloud.batch.answer_folder import AnswerFolder
from cloud.batch.answer_lines import Answered, PartContent, Piece, part_content
from cloud.batch.job import Job
from cloud.batch.journal import Entry, State
from cloud.batch.progress import Tally
from cloud.batch.read_ahead import Read
from cloud.batch.reading import Pixels
from shared.errors import Malformed

Answer = Callable[[Pixels], Awaitable[Answered | None]]
"""None: there is no time left for it; stop before this batch, and keep what is done."""
Gate = Callable[[], Awaitable[bool]]
"""Waits until a batch may run; False: stop here, and keep what is done."""

_ENTRIES_MAX = 4096  # inputs in one part, also of those without a row: bounds memory


@dataclass(slots=True)
class _Batch:
    pieces: list[Piece] = field(default_factory=list)
    pixels: list[Pixels] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    rows: int = 0


class Work:
    """One run over the inputs that are left."""

    def __init__(
        self,
        job: Job,
        labels: Sequence[str],
        folder: AnswerFolder,
        *,
        answer: Answer,
        gate: Gate | None = None,
        rows_max: int | None = None,
        strict: bool = False,
    ) -> None:
        """`rows_max` ends the run after so many rows; `strict` at the first bad input."""
        self._job, self._labels, self._folder = job, labels, folder
        self._answer, self._gate = answer, gate
        self._rows_max, self._strict = rows_max, strict
        self.tally = Tally()
        self._new_part()

    async def run(self, reads: AsyncIterator[Read], answered: dict[str, int]) -> bool:
        """Whether it came to the end of `reads`; `answered` says which rows to leave out.

        What the gate or `rows_max` cut off is committed up to there. Raises what answering raises
        (what was answered before is kept up to the last part), and `Malformed` when strict.
        """
        batch = _Batch()
        async for read in reads:
            if read.rows is None:
                self.tally.rows_unforeseen -= read.rows_expected
                batch.entries.append(_failed(read))
                if self._strict:
                    await self._finish(batch)
                    raise Malformed(f"{read.why_not} (strict: stopped here)")
                if len(batch.entries) >= _ENTRIES_MAX and not batch.rows:
                    await self._finish(batch)
                    batch = _Batch()
                continue
            self.tally.rows_unforeseen += len(read.rows) - read.rows_expected
            at = answered.get(read.found.name, 0)
            while at < len(read.rows):
                count = min(len(read.rows) - at, self._wanted() - batch.rows)
                _add(batch, read, at, count)
                at += count
                if batch.rows == self._wanted():
                    if not await self._run_batch(batch):
                        return False
                    batch = _Batch()
                    if self.tally.rows == self._rows_max:
                        await self._commit()
                        return False
        if batch.rows and not await self._run_batch(batch):
            return False
        await self._finish(_Batch() if batch.rows else batch)
        return True

    def _wanted(self) -> int:
        """Rows that make the next batch whole."""
        left = self._job.batch_rows
        if self._rows_max is not None:
            left = min(left, self._rows_max - self.tally.rows)
        return min(left, self._job.part_rows - self._rows)

    async def _run_batch(self, batch: _Batch) -> bool:
        pixels = batch.pixels[0] if len(batch.pixels) == 1 else np.concatenate(batch.pixels)
        may_run = self._gate is None or await self._gate()
        answered = await self._answer(pixels) if may_run else None
        if answered is None:
            await self._commit()
            return False
        if len(answered.probabilities) != batch.rows:
            raise ValueError(f"{len(answered.probabilities)} answers for {batch.rows} rows")
        if not np.isfinite(answered.probabilities).all():
            raise Malformed(
                f"{batch.pieces[0].name} or its batch mates: {self._job.model} {answered.version} "
                "answers NaN; verify the bundle, or run with another --engine"
            )
        self._content.add(batch.pieces, answered)
        self._rows += batch.rows
        self.tally.rows += batch.rows
        self._note(batch.entries)
        if self._rows >= self._job.part_rows or len(self._entries) >= _ENTRIES_MAX:
            await self._commit()
        return True

    async def _finish(self, batch: _Batch) -> None:
        self._note(batch.entries)
        await self._commit()

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._entries[entry.name] = entry
            if entry.state != "partial":
                self.tally.inputs += 1
                self.tally.failed += entry.state == "failed"

    async def _commit(self) -> None:
        """A part that is being written is written, whoever gives up waiting for it."""
        if not self._entries:
            return
        writing = asyncio.ensure_future(
            asyncio.to_thread(self._write, self._content, self._rows, self._entries)
        )
        self._new_part()
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    def _write(self, content: PartContent, rows: int, entries: dict[str, Entry]) -> None:
        self._folder.commit(content.content() if rows else None, rows, entries.values())

    def _new_part(self) -> None:
        self._content = part_content(self._job, self._labels)
        self._entries: dict[str, Entry] = {}
        self._rows = 0


def _add(batch: _Batch, read: Read, start: int, count: int) -> None:
    assert read.rows is not None
    found, stop = read.found, start + count
    batch.pieces.append(Piece(found.name, start, count))
    batch.pixels.append(read.rows[start:stop])
    batch.rows += count
    state: State = "done" if stop == len(read.rows) else "partial"
    batch.entries.append(Entry(found.name, found.size_bytes, found.tag, stop, state))


def _failed(read: Read) -> Entry:
    found = read.found
    return Entry(found.name, found.size_bytes, found.tag, 0, "failed", read.why_not)
