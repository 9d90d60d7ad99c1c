"""What came of one arm. Plain numbers, the event loop's; a microsecond or two a call."""

from cloud.monitoring.stage_times import StageTime
from cloud.serving.job import Outputs


class ArmCounts:
    __slots__ = (
        "calls", "confidence_sum", "edge_agreed", "escalations", "failed", "fell_back", "rows",
        "time", "version",
    )  # fmt: skip

    def __init__(self, version: str) -> None:
        self.version = version
        self.calls = self.rows = self.failed = self.fell_back = 0
        self.escalations = self.edge_agreed = 0
        self.confidence_sum = 0.0
        self.time = StageTime()
        """Of calls, from the request to its answer."""

    def answered(self, outputs: Outputs, total_s: float) -> None:
        """A call over HTTP."""
        self.calls += 1
        self.time.observe(total_s)
        self._saw(outputs)

    def escalation_answered(self, outputs: Outputs, edge_label: int, total_s: float) -> None:
        self.escalations += 1
        self.edge_agreed += int(outputs.probabilities[0].argmax()) == edge_label
        self.time.observe(total_s)
        self._saw(outputs)

    def did_not_answer(self) -> None:
        self.failed += 1

    def _saw(self, outputs: Outputs) -> None:
        probabilities = outputs.probabilities
        self.rows += len(probabilities)
        self.confidence_sum += float(probabilities.max(axis=-1).sum())
