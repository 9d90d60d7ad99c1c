"""What is noted of each call, whatever its lane: stage times, statistics, load, the inference log."""

from cloud.api.statistics import CallStatistics
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.log_entry import StageMs
from cloud.monitoring.recent_load import RecentLoad
from cloud.monitoring.stage_times import StageTimes
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served

_MS = 1e3


class Record:
    """Belongs to the event loop."""

    def __init__(
        self, stage: StageTimes, statistics: CallStatistics, load: RecentLoad,
        log: AnswerLog | None,
    ) -> None:  # fmt: skip
        self._network, self._decode = stage["network"].observe, stage["decode"].observe
        self._queue, self._model = stage["queue"].observe, stage["model"].observe
        self._encode, self._total = stage["encode"].observe, stage["total"].observe
        self._statistics, self._load, self._log = statistics, load, log

    def answered(
        self, served: Served, rows: Rows, priority: Priority, answer: Answer,
        took_s: tuple[float, float, float, float], request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        """`took_s`: network, decode, encode, and the whole, from arrival to answer."""
        network_s, decode_s, encode_s, total_s = took_s
        _, source, queue_s, run_s = answer
        self._network(network_s)
        self._decode(decode_s)
        self._queue(queue_s)
        self._model(run_s)
        self._encode(encode_s)
        self._total(total_s)
        self._statistics.answered(
            served.name, served.version, len(rows), source, total_s, decode_s, queue_s, run_s,
            encode_s,
        )  # fmt: skip
        if priority is Priority.INTERACTIVE:
            self._load.observe(total_s)
        if self._log is not None and self._log.picks(request_id, answer):
            stages = StageMs(
                network_s * _MS, decode_s * _MS, queue_s * _MS, run_s * _MS, encode_s * _MS
            )
            self._log.answered(served, rows, priority, answer, request_id, trace, caller, stages)

    def failed(
        self, served: Served, priority: Priority, error: Exception, total_s: float,
        request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        """Of a call that found its model: refused, too late, or a fault."""
        self._statistics.failed(served.name, served.version, total_s)
        if self._log is not None:
            self._log.failed(served, priority, error, request_id, trace, caller)
