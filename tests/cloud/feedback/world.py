"""A feedback database with samples in it, for tests."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import numpy as np

from cloud.feedback.data_file import DataRows, read_rows
from cloud.feedback.dictionaries import Dictionaries, NoDictionaries
from cloud.feedback.documents import SampleQuery
from cloud.feedback.settings import FeedbackSettings
from cloud.feedback.store import FeedbackStore
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.store.feedback import Bounds, Feedback, FeedbackTable
from shared.ids import DeviceId, SampleId
from shared.wire.envelope import CloudAnswer, Escalation, Payload, Reason

PLENTY = Bounds(rows_max=1_000_000, bytes_max=10**10)
NOW = 1_800_000_000.0
MODEL = "tiny-edge"


def sample_of(number: int) -> SampleId:
    """As random as a UUIDv7's end, and the same every time."""
    return SampleId(UUID(bytes=hashlib.sha256(b"%d" % number).digest()[:16]))


def row(
    number: int, *, device: str = "cam-1", label: int = 1, edge_label: int = 2, sure: float = 0.7,
    reason: Reason = "escalated", share: float = 1.0, at: float = NOW, version: str = "1.0.0",
    payload: Payload | None = None, classes: int = 3, model: str = MODEL,
    cloud_model: str = "tiny-cloud",
) -> Feedback:  # fmt: skip
    """`label` and `sure`: the cloud's. Its pixels are `number % 256`."""
    id_ = sample_of(number)
    probabilities = np.full(classes, (1 - sure) / (classes - 1), np.float32)
    probabilities[label] = sure
    escalation = Escalation(
        id=id_, model=model, model_version=version, reason=reason, budget_ms=1000,
        captured_at=at - 1, edge_label=edge_label, edge_confidence=0.4,
        payload=payload or Payload("raw", "uint8", (4, 4), bytes([number % 256]) * 16),
        share=share,
    )  # fmt: skip
    answer = CloudAnswer(id_, cloud_model, "2.0.0", probabilities, 0.5, 0.25)
    return Feedback(DeviceId(device), escalation, answer, at)


class World:
    """A worker's table and the store, on one database."""

    def __init__(self, url: str, folder: Path, settings: FeedbackSettings,
                 dictionaries: Dictionaries, bounds: Bounds) -> None:  # fmt: skip
        self.url, self.folder = url, folder
        self.table = FeedbackTable(url, bounds)
        self.table.open()
        self.blobs = FolderBlobs(folder / "data-sets")
        self.store = FeedbackStore(settings, url, self.blobs, dictionaries)
        self.store.open()

    def write(self, *rows: Feedback) -> None:
        for start in range(0, len(rows), 500):
            self.table.write(rows[start : start + 500])

    def count(self, query: SampleQuery | None = None) -> int:
        """Samples, at most the 500 of a page."""
        return len(self.store.samples(query or SampleQuery(), limit=500)[0])

    def rows(self, sha256: str) -> DataRows:
        """Of a data set's file."""
        return read_rows(self.store.verified(sha256), "it", sha256)

    def close(self) -> None:
        self.store.close()
        self.table.close()


@contextmanager
def world(
    url: str, folder: Path, settings: FeedbackSettings | None = None,
    dictionaries: Dictionaries | None = None, bounds: Bounds = PLENTY,
) -> Iterator[World]:  # fmt: skip
    found = World(
        url, folder, settings or FeedbackSettings(), dictionaries or NoDictionaries(), bounds
    )
    try:
        yield found
    finally:
        found.close()
