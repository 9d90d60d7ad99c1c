"""What the inference log is told of one answer, whichever way it was asked for."""

import time

from cloud.monitoring.inference_log import InferenceLog
from cloud.monitoring.input_range import InputRange
from cloud.monitoring.log_entry import Entry, StageMs
from cloud.serving.caches.content import digest_of
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served

_DIGEST_BYTES_MAX = 256 * 1024  # hashing takes a microsecond a KiB, on the event loop


class AnswerLog:
    """Costs a quarter of a microsecond for an answer that is not logged."""

    def __init__(self, log: InferenceLog) -> None:
        self._log, self._sampled = log, log.sampled
        self._keeps_unsure = log.keeps_payloads

    def answered(
        self, served: Served, rows: Rows, priority: Priority, answer: Answer, request_id: str,
        trace: str, caller: str, stages: StageMs,
    ) -> None:  # fmt: skip
        """Of a request whose id `picks` picked, or that is unsure where those are kept."""
        log = self._log
        probabilities = answer.outputs.probabilities
        row = int(probabilities.max(axis=-1).argmin())  # the least confident one
        label = int(probabilities[row].argmax())
        confidence = float(probabilities[row, label])
        marks = InputRange(served.manifest, log.range_margin).marks(rows)
        if confidence < log.low_confidence_below:
            marks = ("low_confidence", *marks)
        digest = digest_of(rows) if rows.nbytes <= _DIGEST_BYTES_MAX else None
        entry = Entry(
            time.time(), request_id, _trace_id(trace), caller, served.name, served.version,
            priority, len(rows), digest, served.manifest.labels[label], confidence, answer.source,
            None, stages, marks,
        )  # fmt: skip
        log.write(entry, rows)

    def picks(self, request_id: str, answer: Answer) -> bool:
        """Whether this answer is to be logged; unsure ones are looked for where inputs are kept."""
        if self._sampled(request_id):
            return True
        if not self._keeps_unsure:
            return False
        confidence = float(answer.outputs.probabilities.max(axis=-1).min())
        return confidence < self._log.low_confidence_below and self._log.notable()

    def failed(
        self, served: Served, priority: Priority, error: Exception, request_id: str, trace: str,
        caller: str,
    ) -> None:  # fmt: skip
        if self._sampled(request_id) or self._log.notable():
            entry = Entry(
                time.time(), request_id, _trace_id(trace), caller, served.name, served.version,
                priority, 0, error=type(error).__name__,
            )  # fmt: skip
            self._log.write(entry)


def _trace_id(trace: str) -> str | None:
    """Of a `traceparent`, or the id itself; None for none."""
    return (trace.split("-")[1] if "-" in trace else trace) or None
