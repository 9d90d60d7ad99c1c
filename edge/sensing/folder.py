"""Read images that other programs put into a folder, each once, in the order they were finished.

The folder is looked at every `interval_s`: the standard library has no inotify, network file
systems do not report to it, and a look at 1,000 files takes a few milliseconds. Writers write under
a hidden name or one that ends in .tmp, .part or .partial, and rename; other files count as finished
once their size and change time stood still from one look to the next.
"""

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Literal

from edge.answers import Cursor, Intake, Sample
from edge.sensing import folder_files
from edge.sensing.data_set import printable
from edge.sensing.folder_files import Decode
from edge.sensing.folder_progress import Entry, Latest, Mark, Progress, complete, oldest
from edge.sensing.pace import Offload, Pace
from edge.sensing.refusals import Refusals
from edge.telemetry.counters import Counters
from shared.errors import Malformed, Unavailable
from shared.imaging.decode import decode_sample
from shared.new_ids import new_sample_id

log = logging.getLogger(__name__)

CHUNK = 16
STUCK_MAX = 1_000


class FolderSource:
    """`after` "delete" removes a file once its sample is on record and moves a refused one into
    `.refused/`; "keep" leaves all where they are and remembers how far it has read.
    """

    def __init__(
        self,
        path: Path,
        *,
        counters: Counters,
        interval_s: float = 1.0,
        after: Literal["keep", "delete"] = "keep",
        decode: Decode = decode_sample,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self.name = f"folder:{path}"
        self._path, self._interval_s, self._deletes = path, interval_s, after == "delete"
        self._decode, self._offload = decode, offload
        self._pace = Pace()
        self._counters = counters
        self._refusals = Refusals(self.name, counters)
        self._progress: Progress = Mark()
        self._stuck = set[Entry]()  # done with, but the file system keeps them
        self._reachable = True

    def drain(self) -> None:
        self._pace.drain()

    async def run(self, intake: Intake) -> None:
        """Until `drain`. Raises `Malformed` at the start for a folder that cannot be used."""
        self._check()
        self._progress = self._resumed(intake.cursor(self.name))
        loop = asyncio.get_running_loop()
        before = frozenset[Entry]()
        while not self._pace.draining:
            looked = loop.time()
            found = await self._look()
            ready = complete(found, before)
            for start in range(0, len(ready), CHUNK):
                if self._pace.draining:
                    return
                await self._hand_over(intake, ready[start : start + CHUNK])
            before = frozenset(found)
            await self._pace.until(looked + self._interval_s)

    def _check(self) -> None:
        needed = os.R_OK | os.X_OK | (os.W_OK if self._deletes else 0)
        if not self._path.is_dir() or not os.access(self._path, needed):
            use = "read and emptied; fix its rights or set after = 'keep'"
            raise Malformed(
                f"sources: {self._path} is no folder that can be "
                f"{use if self._deletes else 'read; make it, or name another'}"
            )

    def _resumed(self, text: str | None) -> Progress:
        try:
            return Latest.parse(text) if self._deletes else Mark.parse(text)
        except Malformed as error:  # `after` was changed, or the record is damaged
            log.warning("cursor_unreadable", extra={"source": self.name, "why": str(error)})
            return Latest() if self._deletes else Mark()

    async def _look(self) -> list[Entry]:
        """Files that are still to be read, in order; [] while the folder cannot be reached."""
        try:
            found, leftover = await self._offload(self._scan)
        except OSError as error:
            if self._reachable:
                log.warning("folder_lost", extra={"source": self.name, "why": str(error)})
            self._reachable = False
            return []
        if not self._reachable:
            log.info("folder_back", extra={"source": self.name})
            self._reachable = True
        await self._remove(leftover)
        return found

    def _scan(self) -> tuple[list[Entry], list[Entry]]:
        leftover = list[Entry]()

        def fresh(entry: Entry) -> bool:
            if self._progress.covers(entry):
                if self._deletes and entry not in self._stuck:
                    leftover.append(entry)  # taken before a crash, which came before its deletion
                return False
            return entry not in self._stuck

        return oldest(filter(fresh, folder_files.entries(self._path))), leftover

    async def _hand_over(self, intake: Intake, chunk: list[Entry]) -> None:
        shape = intake.manifest.inputs[0].shape
        loaded = await self._offload(
            lambda: [folder_files.load(self._path, entry, shape, self._decode) for entry in chunk]
        )
        taken, refused, samples = list[Entry](), list[Entry](), list[Sample]()
        for entry, tensor in zip(chunk, loaded, strict=True):
            if isinstance(tensor, Exception):
                refused.append(entry)
                self._refusals.add(printable(entry.name), tensor)
            elif tensor is not None:
                taken.append(entry)
                samples.append(
                    Sample(
                        id=new_sample_id(),
                        tensor=tensor,
                        captured_at=entry.changed_ns / 1e9,
                        arrived=time.monotonic(),
                        origin=self.name,
                        position=printable(entry.name),
                    )
                )
        progress = self._progress.past(taken if self._deletes else chunk)
        await intake.take(samples, Cursor(self.name, progress.text()))
        self._progress = progress
        if self._deletes:
            await intake.durable()
            await self._remove(taken)
            await self._set_aside(refused)

    async def _remove(self, done: list[Entry]) -> None:
        gone = await self._offload(lambda: [folder_files.delete(self._path, e) for e in done])
        self._keep_stuck(done, gone)

    async def _set_aside(self, refused: list[Entry]) -> None:
        gone = await self._offload(lambda: [folder_files.set_aside(self._path, e) for e in refused])
        self._keep_stuck(refused, gone)

    def _keep_stuck(self, entries: list[Entry], gone: list[bool]) -> None:
        """Files that cannot be removed are remembered, so that none is read twice; bounded."""
        stuck = {entry for entry, is_gone in zip(entries, gone, strict=True) if not is_gone}
        if not stuck:
            return
        self._counters.add("folder_undeletable", len(stuck))
        self._stuck |= stuck
        if len(self._stuck) > STUCK_MAX:
            raise Unavailable(
                f"{self.name}: {len(self._stuck)} files cannot be removed; fix the folder's rights"
            )
