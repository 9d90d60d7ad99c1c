"""Escalations and feedback rows for tests."""

from uuid import UUID

import numpy as np

from cloud.store.feedback import Feedback
from shared.ids import DeviceId, SampleId
from shared.new_ids import new_sample_id
from shared.wire.envelope import CloudAnswer, Escalation, Payload

DEVICE = DeviceId("cam-1")


def sample(number: int) -> SampleId:
    return SampleId(UUID(int=number))


def escalation(
    *,
    id: SampleId | None = None,  # noqa: A002  the field's name
    model: str = "tiny-edge",
    budget_ms: int = 60_000,
    payload: Payload | None = None,
    captured_at: float = 1_800_000_000.5,
    edge_label: int = 2,
) -> Escalation:
    return Escalation(
        id=id or new_sample_id(), model=model, model_version="1.0.0", reason="escalated",
        budget_ms=budget_ms, captured_at=captured_at, edge_label=edge_label, edge_confidence=0.4,
        payload=payload or Payload("raw", "uint8", (4, 4), bytes(16)),
    )  # fmt: skip


def answer(id: SampleId, version: str = "2.0.0") -> CloudAnswer:  # noqa: A002
    probabilities = np.array([0.1, 0.7, 0.2], np.float32)
    return CloudAnswer(id, "tiny-cloud", version, probabilities, 0.5, 0.25)


def feedback(number: int, *, device: DeviceId = DEVICE, version: str = "2.0.0") -> Feedback:
    id_ = sample(number)
    return Feedback(device, escalation(id=id_), answer(id_, version), 1_800_000_001.25)
