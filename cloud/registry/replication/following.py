"""Follows a home: does what the follower decides, one command at a time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import assert_never

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import Entry, Head
from cloud.registry.replication.copier import Copier
from cloud.registry.replication.entry_artifacts import artifacts_of
from cloud.registry.replication.follower import (
    Answered,
    Ask,
    Command,
    Copied,
    Copy,
    Event,
    Failed,
    Follower,
    Ingest,
    Ingested,
    Note,
    Pace,
    RootChanged,
    Woke,
    step,
)
from cloud.registry.replication.one_at_a_time import one_at_a_time
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.settings import HomeSettings
from cloud.registry.replication.signed_heads import SignedHead, SignedHeadFile, is_signed
from cloud.registry.replication.trusted_root import TrustedRoot
from cloud.registry.replication.verdict import Fits, Verdict, judge
from shared.errors import HybridgeError, TooLarge, Unavailable

log = logging.getLogger(__name__)


class Following:
    """`peers` are open, by URL, in the order of the settings."""

    def __init__(
        self,
        settings: HomeSettings,
        peers: Mapping[str, Peer],
        catalog: Catalog,
        artifacts: Artifacts,
        root: TrustedRoot,
        folder: Path,
        on_ingested: Callable[[], None],
    ) -> None:
        self._settings, self._peers = settings, peers
        self._catalog, self._root, self._folder = catalog, root, folder
        self._on_ingested = on_ingested
        self._signed_head = SignedHeadFile(folder / "signed_head.json")
        self.copier = Copier(artifacts, settings)
        self.counts: Counter[str] = Counter()
        self.state: Follower | None = None  # before the start
        self.followed = asyncio.Event()  # a home gave a good answer, at least once
        self._entries_max = settings.entries_max
        self._root_changed = asyncio.Event()
        self._newer_at = ""
        self._vouched: SignedHead | None = None  # for the batch under way
        self._troubled: dict[str, str] = {}  # by URL, what was logged last

    def root_changed(self, url: str) -> None:
        """Say that `url` has a newer root: whoever is asked just now may be no home any more."""
        self._newer_at = url
        self._root_changed.set()

    async def run(self) -> None:
        """Until it is cancelled; what was ingested is whole."""
        settings, loop = self._settings, asyncio.get_running_loop()
        rng = Random()  # noqa: S311  spreads retries
        head = await asyncio.to_thread(self._catalog.head)
        pace = Pace(settings.wait_s, settings.pause_s_min, settings.pause_s_max)
        self.state = Follower(tuple(self._peers), head, pace, due_at=loop.time())
        event: Event = Woke()
        work: asyncio.Task[Event] | None = None
        try:
            while True:
                self.state, commands = step(self.state, event, loop.time(), rng)
                for command in commands:
                    if isinstance(command, Note):
                        self._note(command)
                        continue
                    if work is not None and not work.done():
                        await _end(work)
                    work = asyncio.create_task(self._do(command))
                event, work = await self._next(work)
        finally:
            if work is not None:
                await _end(work)

    async def _next(
        self, work: "asyncio.Task[Event] | None"
    ) -> "tuple[Event, asyncio.Task[Event] | None]":
        """What happens first: the work's end, a newer root, or the time that is due."""
        assert self.state is not None
        due_at = self.state.due_at
        timeout = None if due_at is None else max(0.0, due_at - asyncio.get_running_loop().time())
        changed = asyncio.create_task(self._root_changed.wait())
        try:
            await asyncio.wait(
                {changed} if work is None else {changed, work},
                timeout=timeout, return_when=asyncio.FIRST_COMPLETED,
            )  # fmt: skip
        finally:
            changed.cancel()
        if work is not None and work.done():
            return work.result(), None
        if self._root_changed.is_set():
            self._root_changed.clear()
            return RootChanged(self._newer_at), work
        return Woke(), work

    async def _do(self, command: Command) -> Event:
        match command:
            case Ask():
                return await self._ask(command)
            case Copy():
                return await self._copy(command)
            case Ingest():
                return await self._ingest(command)
            case Note():
                raise AssertionError("notes are no work")
            case _:
                assert_never(command)

    async def _ask(self, ask: Ask) -> Event:
        peer, settings = self._peers[ask.url], self._settings
        try:
            await self._root.walk(peer.root)
            answer = await peer.log(ask.after.seq, self._entries_max, ask.wait_s)
        except TooLarge as error:
            self._entries_max = max(1, self._entries_max // 4)  # long entries: fewer of them
            return Failed(ask.generation, "refused", str(error))
        except Unavailable as error:
            return Failed(ask.generation, "unreachable", str(error))
        except HybridgeError as error:
            return Failed(ask.generation, "refused", str(error))
        self._entries_max = min(settings.entries_max, self._entries_max * 2)
        root = self._root

        def held() -> Verdict:
            signed = is_signed(root, answer)
            return judge(ask.after, answer, epoch=root.epoch, signed=signed)

        verdict = await asyncio.to_thread(held)
        if isinstance(verdict, Fits):
            self._vouched = SignedHead(
                head=answer.head, signature=answer.signature, newest=verdict.newest
            )
            if not verdict.entries:
                self._signed_head.write(self._vouched)
        return Answered(ask.generation, verdict)

    async def _copy(self, copy: Copy) -> Event:
        peer = self._peers[copy.url]
        try:
            gone = await self.copier.copy(peer, artifacts_of(copy.entries))
            # what the home has thrown away nobody can have; a replica's lack is its own
            if gone and not await peer.is_home():
                why = f"{len(gone)} artifacts are not there, first {min(gone)[:12]}"
                return Failed(copy.generation, "copy", why)
        except Unavailable as error:
            return Failed(copy.generation, "unreachable", str(error))
        except HybridgeError as error:
            return Failed(copy.generation, "copy", str(error))
        return Copied(copy.generation)

    async def _ingest(self, ingest: Ingest) -> Event:
        try:
            head = await asyncio.to_thread(self._take_in, ingest.entries)
        except HybridgeError as error:
            return Failed(ingest.generation, "ingest", str(error))
        self.counts["entries"] += len(ingest.entries)
        self._on_ingested()
        return Ingested(ingest.generation, head)

    def _take_in(self, entries: tuple[Entry, ...]) -> Head:
        with one_at_a_time(self._folder, "ingest"):
            head = self._catalog.ingest(entries)
            if self._vouched is not None and self._vouched.head.seq == head.seq:
                self._signed_head.write(self._vouched)
        return head

    def _note(self, note: Note) -> None:
        """A lost home is logged once when lost, and once when back; counted each time."""
        if note.trouble is None:
            self.followed.set()
            if self._troubled.get(note.url) != "":
                log.info("following", extra={"home": note.url})
                self._troubled[note.url] = ""
            return
        self.counts[note.trouble] += 1
        if self._troubled.get(note.url) == note.trouble:
            return
        self._troubled[note.url] = note.trouble
        level = logging.ERROR if note.trouble == "forked" else logging.WARNING
        extra = {"home": note.url, "trouble": note.trouble, "why": note.why}
        log.log(level, "not_followed", extra=extra)


async def _end(work: "asyncio.Task[Event]") -> None:
    """What a thread of it still writes is whole, or undone."""
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
