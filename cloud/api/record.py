"""What is noted of each call, whatever its lane: stage times, statistics, load, the inference log."""

from array import array

import numpy as np

from cloud.api.statistics import CallStatistics
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.log_entry import StageMs
from cloud.monitoring.recent_load import RecentLoad
from cloud.monitoring.stage_times import Stage, StageTimes
from cloud.serving.inference import Answer, Source
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served

_MS = 1e3
_STAGES: tuple[Stage, ...] = ("network", "decode", "queue", "model", "encode", "total")
_TOTAL = _STAGES.index("total")
_COLUMNS = len(_STAGES) + 1  # and the number of rows
_FULL = 256 * _COLUMNS
_Kind = tuple[str, str, Source, Priority]


class Record:
    """Belongs to the event loop. Counts calls by the hundred: one by one it would be a sixth of what
    a call costs beside its model.
    """

    def __init__(
        self, stage: StageTimes, statistics: CallStatistics, load: RecentLoad,
        log: AnswerLog | None,
    ) -> None:  # fmt: skip
        self._stages = tuple(stage[each] for each in _STAGES)
        self._statistics, self._load, self._log = statistics, load, log
        self._calls: dict[_Kind, array[float]] = {}
        stage.catch_up = statistics.catch_up = self.flush

    def answered(
        self, served: Served, rows: Rows, priority: Priority, answer: Answer,
        took_s: tuple[float, float, float, float], request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        """`took_s`: network, decode, encode, and the whole, from arrival to answer."""
        network_s, decode_s, encode_s, total_s = took_s
        _, source, queue_s, run_s = answer
        kind = served.name, served.version, source, priority
        calls = self._calls.get(kind)
        if calls is None:
            calls = self._calls[kind] = array("d")
        calls.extend((network_s, decode_s, queue_s, run_s, encode_s, total_s, len(rows)))
        if len(calls) >= _FULL:
            self.flush()
        if self._log is not None and self._log.picks(request_id, answer):
            stages = StageMs(
                network_s * _MS, decode_s * _MS, queue_s * _MS, run_s * _MS, encode_s * _MS
            )
            self._log.answered(served, rows, priority, answer, request_id, trace, caller, stages)

    def flush(self) -> None:
        """Count what has come: once a second, and before anybody reads."""
        calls, self._calls = self._calls, {}
        for (name, version, source, priority), numbers in calls.items():
            columns = np.frombuffer(numbers).reshape(-1, _COLUMNS).T
            for stage, seconds in zip(self._stages, columns, strict=False):
                stage.observe_all(seconds)
            _, decode_s, queue_s, run_s, encode_s, total_s, rows = columns.sum(axis=1).tolist()
            self._statistics.answered(
                name, version, source, columns.shape[1], int(rows),
                total_s, decode_s, queue_s, run_s, encode_s,
            )  # fmt: skip
            if priority is Priority.INTERACTIVE:
                self._load.observe_all(columns[_TOTAL])

    def failed(
        self, served: Served, priority: Priority, error: Exception, total_s: float,
        request_id: str, trace: str, caller: str,
    ) -> None:  # fmt: skip
        """Of a call that found its model: refused, too late, or a fault."""
        self._statistics.failed(served.name, served.version, total_s)
        if self._log is not None:
            self._log.failed(served, priority, error, request_id, trace, caller)
