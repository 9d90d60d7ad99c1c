"""What is noted of each call, whatever its lane: stage times, statistics, load, the inference log."""

from dataclasses import dataclass

from cloud.api.statistics import CallStatistics
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.log_entry import StageMs
from cloud.monitoring.recent_load import RecentLoad
from cloud.monitoring.stage_times import StageTimes
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served

_MS = 1e3


@dataclass(slots=True)
class Took:
    """Seconds of one call's stages that are measured outside of the model."""

    network_s: float = 0.0
    decode_s: float = 0.0
    encode_s: float = 0.0
    total_s: float = 0.0


class Record:
    """Belongs to the event loop."""

    def __init__(
        self, stage: StageTimes, statistics: CallStatistics, load: RecentLoad,
        log: AnswerLog | None,
    ) -> None:  # fmt: skip
        self._network, self._decode, self._encode = (
            stage["network"],
            stage["decode"],
            stage["encode"],
        )
        self._queue, self._model = stage["queue"], stage["model"]
        self._statistics, self._load, self._log = statistics, load, log

    def answered(
        self, served: Served, rows: Rows, priority: Priority, answer: Answer, took: Took,
        request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        queue_s, run_s, total_s = answer.queue_s, answer.run_s, took.total_s
        self._network.observe(took.network_s)
        self._decode.observe(took.decode_s)
        self._queue.observe(queue_s)
        self._model.observe(run_s)
        self._encode.observe(took.encode_s)
        self._statistics.answered(
            served.name, served.version, len(rows), answer.source,
            total_s=total_s, decode_s=took.decode_s, queue_s=queue_s, run_s=run_s,
            encode_s=took.encode_s,
        )  # fmt: skip
        if priority is Priority.INTERACTIVE:
            self._load.observe(total_s)
        if self._log is not None and self._log.picks(request_id, answer):
            stages = StageMs(
                took.network_s * _MS, took.decode_s * _MS, queue_s * _MS, run_s * _MS,
                took.encode_s * _MS,
            )  # fmt: skip
            self._log.answered(served, rows, priority, answer, request_id, trace, caller, stages)

    def failed(
        self, served: Served, priority: Priority, error: Exception, total_s: float,
        request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        """Of a call that found its model: refused, too late, or a fault."""
        self._statistics.failed(served.name, served.version, total_s)
        if self._log is not None:
            self._log.failed(served, priority, error, request_id, trace, caller)
