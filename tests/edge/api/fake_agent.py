"""A small agent that really keeps the promises of `Answering`, without a model or a network.

The label is the image's mean brightness in thirds; grey between the thirds is escalated.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edge.answers import Answer, Answering, Corrections, Sample
from edge.api.status import Inspectable
from edge.routing.novelty import Seen
from shared.bundle.manifest import (
    Calibration,
    File,
    Golden,
    Lineage,
    Manifest,
    PayloadCodec,
    Tensor,
    Variant,
)
from shared.errors import DeadlineMissed, Malformed, Overloaded, Unavailable, Unknown
from shared.ids import DeviceId, SampleId

SIDE = 4
_SHA = "0" * 64


def manifest() -> Manifest:
    """uint8 [N, 4, 4] -> three labels."""
    return Manifest(
        format=1,
        name="tiny-edge",
        version="1.2.3",
        task="classify",
        inputs=(Tensor(name="image", dtype="uint8", shape=(SIDE, SIDE)),),
        outputs=(Tensor(name="logits", dtype="float32", shape=(3,)),),
        labels=("dark", "grey", "bright"),
        variants=(
            Variant(
                engine="onnxruntime",
                precision="int8",
                file=File(path="model.onnx", sha256=_SHA, bytes=1),
            ),
        ),
        calibration=Calibration(temperature=1.0, score="max_softmax"),
        golden=Golden(
            file=File(path="golden.npz", sha256=_SHA, bytes=1), tolerance={}, agreement_min={}
        ),
        payload=PayloadCodec(codec="raw"),
        reference=(),
        lineage=Lineage(
            data_set="none", data_sha256=_SHA, code_version="0", hyperparameters={}, metrics={}
        ),
        card=File(path="card.md", sha256=_SHA, bytes=1),
    )


class FakeCorrections:
    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[Answer] = deque()
        self._changed = asyncio.Event()
        self._ended: Unavailable | None = None
        self.closed = False

    def put(self, answer: Answer) -> None:
        if len(self._waiting) == self._bound:
            self.end(Overloaded(f"{self._bound} answers were not read in time"))
        if self._ended is None:
            self._waiting.append(answer)
            self._changed.set()

    def end(self, why: Unavailable) -> None:
        self._ended = self._ended or why
        self._changed.set()

    async def next(self) -> Answer:
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    def close(self) -> None:
        self.closed = True


class FakeAgent:
    """Escalates grey samples; `cloud_says` is the cloud's answer."""

    def __init__(self, *, capacity: int = 1000, stream_bound: int = 10_000) -> None:
        self.manifest = manifest()
        self.ready = True
        self.engine = "onnxruntime/int8"
        self.device_id = DeviceId("cam-1")
        self.link_up = True
        self.samples: list[Sample] = []
        self.streams: list[FakeCorrections] = []
        self.subscribed = asyncio.Event()
        self.escalated = asyncio.Event()
        self._capacity, self._stream_bound = capacity, stream_bound
        self._answers: dict[SampleId, Answer] = {}
        self._finals: dict[SampleId, asyncio.Future[Answer]] = {}

    async def answer(self, sample: Sample) -> Answer:
        if sample.tensor.shape != (SIDE, SIDE) or sample.tensor.dtype != np.uint8:
            raise Malformed(f"tensor is {sample.tensor.dtype}{sample.tensor.shape}")
        if len(self._answers) >= self._capacity:
            raise Overloaded(f"{self._capacity} samples are remembered already")
        mean = float(sample.tensor.mean())
        label = min(int(mean / 85), 2)
        unsure = label == 1
        answer = Answer(
            id=sample.id, label=label, confidence=0.5 if unsure else 1.0, source="edge",
            route="escalated" if unsure else "accepted", model_version="1.2.3",
            final=not unsure, latency_ms=1.0, edge_label=label,
            origin=sample.origin, position=sample.position,
        )  # fmt: skip
        self.samples.append(sample)
        self._answers[sample.id] = answer
        self._finals[sample.id] = asyncio.get_running_loop().create_future()
        if answer.final:
            self._finals[sample.id].set_result(answer)
        else:
            self.escalated.set()
        return answer

    async def final(self, sample: SampleId, within_s: float) -> Answer:
        if sample not in self._finals:
            raise Unknown(f"sample {sample} is not known")
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(self._finals[sample])
        except TimeoutError as error:
            raise DeadlineMissed(f"no final answer within {within_s} s") from error

    def find(self, sample: SampleId) -> Answer | None:
        return self._answers.get(sample)

    def corrections(self) -> Corrections:
        stream = FakeCorrections(self._stream_bound)
        self.streams.append(stream)
        self.subscribed.set()
        return stream

    def cloud_says(self, sample: SampleId, label: int) -> None:
        answer = replace(
            self._answers[sample], label=label, confidence=0.9, source="cloud", final=True,
            model_version="7.0.0",
        )  # fmt: skip
        self._answers[sample] = answer
        self._finals[sample].set_result(answer)
        for stream in self.streams:
            stream.put(answer)

    @property
    def outbox_depth(self) -> tuple[int, int]:
        waiting = sum(not answer.final for answer in self._answers.values())
        return waiting, waiting * SIDE * SIDE

    def ledger_counts(self) -> Mapping[str, int]:
        return {"expired": 2, 'od"d\\': 1}

    def novelty(self) -> Seen:
        return Seen("watchful", 0.876, "input_low", 0.01, raised_out=False, looked=7, missing=1)

    def counters(self) -> Mapping[str, int]:
        return {"answered": len(self._answers)}


def _keeps_the_protocols(agent: FakeAgent) -> tuple[Answering, Inspectable]:
    return agent, agent
