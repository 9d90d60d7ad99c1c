"""A sample, and what the application is told about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from shared.bundle.manifest import Manifest
from shared.ids import SampleId

AnswerSource = Literal["edge", "cloud", "fused"]
Route = Literal["accepted", "escalated", "audit", "novel"]
"""The edge's word stands; the cloud is asked for doubt; to check; for an input of unknown kind."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One input, as the device captured it."""

    id: SampleId
    tensor: NDArray[np.uint8]  # the model's input shape, without the batch axis
    captured_at: float  # Unix seconds by this device's clock; for people
    arrived: float  # by `time.monotonic`; latencies count from here
    origin: str = ""  # which source it came from: "api", "folder:/data/in", "replay:test.npz"
    position: str = ""  # where in that source: a file name, an index
    traceparent: str = ""  # W3C Trace Context of whoever asked; goes on to the cloud


@dataclass(frozen=True, slots=True)
class Answer:
    """One prediction. A sample has one provisional answer at most and one final one at most.

    `final` is False while the cloud is asked. A sample that is given up keeps its edge answer:
    `given_up` then names the loss ledger's reason and `final` is True.
    """

    id: SampleId
    label: int
    confidence: float
    source: AnswerSource
    route: Route
    model_version: str
    final: bool
    latency_ms: float  # since the sample arrived
    origin: str = ""
    position: str = ""
    given_up: str = ""
    edge_label: int = -1  # what the edge said at first; equals `label` when source is "edge"
    first_latency_ms: float = 0.0  # of the edge's own answer
    uplink_bytes: int = 0  # MQTT payload bytes that this sample cost on the way up


class Corrections(Protocol):
    """One subscriber's stream of final answers; bounded, closed when its reader is too slow."""

    async def next(self) -> Answer: ...

    def close(self) -> None: ...


class Answering(Protocol):
    """What sources and the local API ask of the agent."""

    @property
    def manifest(self) -> Manifest: ...

    @property
    def ready(self) -> bool: ...

    async def answer(self, sample: Sample) -> Answer:
        """The edge's answer, now. When it is not final its escalation is on disk already.

        Should the final one come before the disk is done, that is returned instead.

        Raises `Malformed` for a tensor that is not the model's, `Overloaded`, `Unavailable`.
        """
        ...

    async def final(self, sample: SampleId, within_s: float) -> Answer:
        """Wait for the final answer. Raises `DeadlineMissed`, or `Unknown` for an unknown id."""
        ...

    def find(self, sample: SampleId) -> Answer | None:
        """The newest answer that is still remembered."""
        ...

    def corrections(self) -> Corrections: ...


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source has come. It reaches the disk in one transaction with its samples."""

    source: str  # the source's name, the same after a restart: "replay:/data/test.npz 0/3"
    position: str  # whatever the source needs to go on from; at most 64 KiB


class Intake(Protocol):
    """What a source hands its samples to."""

    @property
    def manifest(self) -> Manifest: ...

    def cursor(self, source: str) -> str | None:
        """The position that this source last recorded; None the first time."""
        ...

    async def take(self, samples: Sequence[Sample], cursor: Cursor | None = None) -> list[Answer]:
        """Answer and record a chunk (a few ms worth of samples), with its cursor, all or nothing.

        Yields to the event loop and waits while the disk is behind. What is returned is on its
        way to the disk; await `durable` where it must be there (before a file is deleted).
        Raises `Malformed` for a tensor that is not the model's, before anything is recorded.
        """
        ...

    async def durable(self) -> None:
        """Return once everything taken so far is on disk, or is in the loss ledger."""
        ...


class Source(Protocol):
    """One long-running supplier of samples."""

    async def run(self, intake: Intake) -> None:
        """Supply samples until the end of the source or `drain`."""
        ...

    def drain(self) -> None: ...
