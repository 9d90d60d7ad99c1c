"""What a worker stores of one escalation. Pure."""

from dataclasses import dataclass

from shared.ids import DeviceId, SampleId
from shared.wire.envelope import CloudAnswer, Escalation

Key = tuple[DeviceId, SampleId]


@dataclass(frozen=True, slots=True)
class Feedback:
    device: DeviceId
    escalation: Escalation
    answer: CloudAnswer
    received_at: float  # Unix seconds

    @property
    def key(self) -> Key:
        return self.device, self.escalation.id
