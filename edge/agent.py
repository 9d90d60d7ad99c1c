"""The agent: what sources and the local API ask (`Answering`, `Intake`, `Inspectable`).

The way of one sample: model, calibrated confidence, policy, answer, a row for the journal; about
thirty microseconds besides the model, all on the event loop (benchmarks hold it to that). Another
version of the model takes over between two samples, by one assignment (`swap`).
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from edge.answer_book import AnswerBook, Stream
from edge.answers import Answer, Cursor, Sample
from edge.config import Config
from edge.inference.active import Active, activate
from edge.inference.slot import Logits, Slot
from edge.journal.journal import Journal
from edge.journal.rows import Pending
from edge.journal.writes import Accepted, Opened, Write
from edge.judging import Judge
from edge.routing.novelty import NoveltyWatch, Seen
from edge.routing.settings import Routing
from edge.telemetry.counters import Counters
from edge.telemetry.tally import VersionTally
from edge.uplink.quota import Quota
from edge.uplink.settings import Uplink as UplinkSettings
from edge.uplink.settings import limits_of
from edge.uplink.terms import Terms
from edge.uplink.uplink import Uplink
from shared import ids
from shared.bundle.manifest import Manifest
from shared.errors import Overloaded, Unavailable, Unknown
from shared.ids import DeviceId, SampleId
from shared.wire.envelope import CloudAnswer

_TURN_S_MAX = 0.0025  # the model runs over a chunk for so long, then the event loop for others


class Agent:
    def __init__(
        self,
        config: Config,
        slot: Slot,
        journal: Journal,
        counters: Counters,
        rng: random.Random,
    ) -> None:
        """Raises `Unknown` for a routing threshold that the bundle does not have."""
        self._config, self._journal = config, journal
        self._routing = config.routing
        self._active = self._activated(slot, config.routing, None)
        self._counters, self._rng = counters, rng
        self._judge = Judge(
            config.deadlines.fast_ms, config.deadlines.asynchronous_s, journal.now, counters, rng
        )
        self._book = AnswerBook(config.answers.in_memory_max, config.answers.stream_max)
        self._device = ids.device_id(config.device_id)
        self._draining = False
        self._turn_began = 0.0
        self.on_cloud: Callable[[SampleId, int], None] = lambda *_: None
        """Is told the cloud's label of each sample that it answered."""
        self._uplink: Uplink | None = None
        if config.uplink is not None:
            self._uplink = self._open_uplink(config, config.uplink)
            self._uplink.on_cloud = self._cloud_said
            self._uplink.restore()

    def _open_uplink(self, config: Config, uplink: UplinkSettings) -> Uplink:
        limits = limits_of(uplink, config.routing.budget)
        terms = Terms(self._device, self.manifest, config.deadlines, config.routing.fusion, limits)
        return Uplink(
            terms, config.link_settings(), self._journal,
            Quota(config.outbox.bytes_max, config.outbox.rows_max),
            self._book.note, self._counters, self._rng,
        )  # fmt: skip

    def _activated(
        self,
        slot: Slot,
        routing: Routing,
        tally: VersionTally | None,
        watch: NoveltyWatch | None = None,
    ) -> Active:
        alone = self._config.uplink is None
        return activate(slot, routing, time.monotonic(), alone=alone, tally=tally, watch=watch)

    @property
    def shadow(self) -> Callable[[NDArray[np.uint8], Answer], None] | None:
        """Is shown each live sample with the edge's answer; must return at once."""
        return self._judge.shadow

    @shadow.setter
    def shadow(self, shadow: Callable[[NDArray[np.uint8], Answer], None] | None) -> None:
        self._judge.shadow = shadow

    # edge.answers.Answering

    @property
    def manifest(self) -> Manifest:
        return self._active.slot.manifest

    @property
    def ready(self) -> bool:
        return not self._draining

    async def answer(self, sample: Sample) -> Answer:
        if self._draining:
            raise Unavailable("the agent is shutting down; ask again when it is back")
        if self._journal.full:
            raise Overloaded("the disk is behind; ask again in a moment, and less often")
        active = self._active
        if active.slot.inline:
            logits = active.logits(sample.tensor)
        else:
            (logits,) = await active.logits_of([sample.tensor])
        answer, pending = self._judge.judge(active, sample, logits)
        if pending is None:
            self._journal.record(Accepted(answer))
            self._book.note(answer)
            return answer
        self._journal.record(Opened(pending))
        self._escalate(pending)
        await self._journal.durable()
        return self.find(answer.id) or answer

    async def final(self, sample: SampleId, within_s: float) -> Answer:
        answer = self.find(sample)
        if answer is None:
            raise Unknown(f"sample {sample} is not remembered here; check the id")
        return answer if answer.final else await self._book.final(sample, within_s)

    def find(self, sample: SampleId) -> Answer | None:
        return self._book.find(sample) or self._journal.find(sample)

    def corrections(self) -> Stream:
        return self._book.follow()

    # edge.answers.Intake

    def cursor(self, source: str) -> str | None:
        return self._journal.cursor(source)

    async def take(self, samples: Sequence[Sample], cursor: Cursor | None = None) -> list[Answer]:
        while self._journal.behind:
            await self._journal.durable()
        judged = await self._judged(samples)
        writes: list[Write] = [
            Accepted(answer) if pending is None else Opened(pending) for answer, pending in judged
        ]
        if cursor is not None:
            self._journal.move(cursor, *writes)
        elif writes:
            self._journal.record(*writes)
        for answer, pending in judged:
            if pending is None:
                self._book.note(answer)
            else:
                self._escalate(pending)
        return [answer for answer, _ in judged]

    async def durable(self) -> None:
        await self._journal.durable()

    # edge.api.status.Inspectable

    @property
    def device_id(self) -> DeviceId:
        return self._device

    @property
    def engine(self) -> str:
        return self._active.slot.key

    @property
    def link_up(self) -> bool:
        return self._uplink is not None and self._uplink.up

    @property
    def outbox_depth(self) -> tuple[int, int]:
        return (0, 0) if self._uplink is None else self._uplink.depth

    def ledger_counts(self) -> Mapping[str, int]:
        counts = self._journal.counts()
        return {k.removeprefix("lost:"): n for k, n in counts.items() if k.startswith("lost:")}

    def novelty(self) -> Seen | None:
        return None if self.watch is None else self.watch.seen()

    def counters(self) -> Mapping[str, int]:
        """Since the process started; `recorded` and `answered` since the state directory was
        made.
        """
        kept = {k: n for k, n in self._journal.counts().items() if not k.startswith("lost:")}
        return self._counters.snapshot() | kept

    # Life

    @property
    def slot(self) -> Slot:
        """The one that answers now."""
        return self._active.slot

    def swap(self, slot: Slot) -> Slot:
        """Let another version answer from the next sample on; the one before is given back.

        That one still owes the samples in its worker thread: `Slot.retire` waits for them. Raises
        `Unknown` for a routing threshold that the new bundle does not have; nothing changes then.
        """
        before = self._active
        counted = before.tally and before.tally.next(
            slot.manifest, self._journal.now(), self._routing.audit_share
        )
        self._active = self._activated(slot, self._routing, counted)
        if self._uplink is not None:
            self._uplink.serve(slot.manifest)
        return before.slot

    def count(self) -> None:
        """Keep a tally of what the active version does, from now on."""
        share = self._routing.audit_share
        tally = VersionTally(self.manifest, self._journal.now(), share=share)
        self._active = self._activated(self.slot, self._routing, tally)

    @property
    def tally(self) -> VersionTally | None:
        """Of the version that answers now, since it does."""
        return self._active.tally

    @property
    def watch(self) -> NoveltyWatch | None:
        """Of inputs unlike the reference of the version that answers now."""
        return self._active.watch

    def retune(self, routing: Routing) -> None:
        """Route by this from the next sample on, within its budget.

        Raises `Unknown` for a threshold that the bundle does not have; nothing changes then.
        """
        active = self._active
        self._active = self._activated(active.slot, routing, active.tally, active.watch)
        self._routing = routing
        if self._uplink is not None and self._config.uplink is not None:
            self._uplink.retune(limits_of(self._config.uplink, routing.budget))

    @property
    def uplink(self) -> Uplink | None:
        return self._uplink

    def drain(self) -> None:
        """Take in nothing more; streams end once they are read."""
        self._draining = True
        self._book.close()

    # One sample

    async def _judged(self, samples: Sequence[Sample]) -> list[tuple[Answer, Pending | None]]:
        if not (active := self._active).slot.inline:
            logits = await active.logits_of([sample.tensor for sample in samples])
            return [self._judge.judge(active, *pair) for pair in zip(samples, logits, strict=True)]
        judged: list[tuple[Answer, Pending | None]] = []
        while left := samples[len(judged) :]:
            if time.monotonic() - self._turn_began > _TURN_S_MAX:
                await asyncio.sleep(0)
                self._turn_began = time.monotonic()
            active = self._active  # another may have taken over while the event loop ran
            if not active.slot.inline:
                return judged + await self._judged(left)
            logits = self._turn(active, left)
            judged += map(self._judge.judge, repeat(active), left, logits)
        return judged

    def _turn(self, active: Active, samples: Sequence[Sample]) -> list[Logits]:
        """The model alone, over as many as one turn of the event loop has time for: one at least.

        It empties the caches, so what follows for each is done for all of them at once.
        """
        logits: list[Logits] = []
        for sample in samples:
            logits.append(active.logits(sample.tensor))
            if time.monotonic() - self._turn_began > _TURN_S_MAX:
                break
        return logits

    def _cloud_said(self, pending: Pending, cloud: CloudAnswer, arrived: float) -> None:
        label = int(cloud.probabilities.argmax())
        if self.tally is not None:
            self.tally.cloud_said(
                pending.escalation.model_version, arrived, audit=pending.answer.route == "audit",
                edge_label=pending.answer.edge_label, cloud_label=label,
                share=pending.escalation.share,
            )  # fmt: skip
        self.on_cloud(pending.id, label)

    def _escalate(self, pending: Pending) -> None:
        self._book.note(pending.answer)
        assert self._uplink is not None, "without an uplink the policy accepts everything"
        self._uplink.submit(pending)
