"""A line for each answer that is logged, written by a thread of its own.

The event loop never waits for the disk: lines wait in a bounded queue, and what has no place there
is counted and dropped. A full disk costs lines, which are counted too, and nothing else.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from cloud.monitoring.log_entry import Entry, line_of
from cloud.monitoring.log_file import LogFile, claim
from cloud.monitoring.log_sampling import Sampling
from cloud.monitoring.payload_folder import PayloadFolder
from cloud.monitoring.settings import BLOCK_BYTES, InferenceLogSettings
from cloud.serving.caches.content import digest_of
from cloud.serving.job import Rows
from shared.errors import HybridgeError
from shared.token_bucket import TokenBucket

log = logging.getLogger(__name__)

PAYLOAD_BYTES_MAX = 256 * 1024  # of one input: it is copied on the event loop
_PAYLOADS_PENDING_MAX = 64
_TOGETHER = 16  # lines that change threads at once

_Line = tuple[Entry, Rows | None]


@dataclass(slots=True)
class Counts:
    """Since the process started. The first two are the caller's thread's, the others the log's."""

    dropped: int = 0
    """Lines for which there was no place, or no allowance left."""
    payloads_dropped: int = 0
    written: int = 0
    lost: int = 0
    """Lines that the disk did not take."""
    payloads_written: int = 0
    payloads_lost: int = 0


class InferenceLog(Collector):
    """`start` it, then ask `sampled` or `notable` for each answer, and `write` if either says so."""

    def __init__(
        self,
        settings: InferenceLogSettings,
        folder: Path,
        registry: CollectorRegistry,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: `state_dir`. Methods but `close` belong to one thread, the event loop's."""
        self._settings, self._folder, self._now = settings, folder, now
        self._notable = _allowance(settings.notable_per_s)
        self._lines = _allowance(settings.lines_per_s_max)
        self._together: list[_Line] = []
        self._queue: SimpleQueue[list[_Line] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="inference-log", daemon=True)
        self._closed = False
        self._failing: set[str] = set()  # what was told to fail, until it works again
        self._lock: int | None = None
        self._file: LogFile | None = None
        self._payloads: PayloadFolder | None = None
        self.counts = Counts()
        self.sampled = Sampling(settings.share).picks
        """`sampled(request_id)`: whether this request is one of the share, 0.2 us."""
        self.low_confidence_below = settings.low_confidence_below
        self.range_margin = settings.range_margin
        self.keeps_payloads = settings.payload != "never"
        registry.register(self)

    def start(self) -> None:
        self._thread.start()

    def notable(self) -> bool:
        """Whether an error or an unsure answer that was not picked may be logged all the same."""
        return self._notable is not None and self._notable.take(self._now())

    def write(self, entry: Entry, rows: Rows | None = None) -> None:
        """Never waits, never raises. `rows` are kept only where `payload` asks for them."""
        pending = len(self._together) + self._queue.qsize() * _TOGETHER
        if self._closed or pending >= self._settings.pending_max:
            self.counts.dropped += 1
        elif self._lines is not None and self._lines.take(self._now()):
            self._together.append((entry, self._payload(entry, rows)))
            if len(self._together) >= _TOGETHER:
                self.flush()
        else:
            self.counts.dropped += 1

    def flush(self) -> None:
        """Hand what was written to the thread. To be called about once a second: each time costs
        the event loop a change of threads, which is ten times what a line is.
        """
        if self._together:
            self._queue.put(self._together)
            self._together = []

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, then stop; a disk that hangs is left behind after `timeout_s`."""
        self._closed = True
        self.flush()
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def collect(self) -> Iterator[Metric]:
        counts = self.counts
        for what, outcomes in (
            ("lines", (counts.written, counts.dropped, counts.lost)),
            ("payloads", (counts.payloads_written, counts.payloads_dropped, counts.payloads_lost)),
        ):
            family = CounterMetricFamily(
                f"hybridge_inference_log_{what}", "Of the inference log, by what became of them",
                labels=["outcome"],
            )  # fmt: skip
            for outcome, count in zip(("written", "dropped", "lost"), outcomes, strict=True):
                family.add_metric([outcome], count)
            yield family

    def _payload(self, entry: Entry, rows: Rows | None) -> Rows | None:
        if rows is None or self._settings.payload == "never" or (
            entry.confidence is None or entry.confidence >= self.low_confidence_below
        ):  # fmt: skip
            return None
        if (
            rows.nbytes > PAYLOAD_BYTES_MAX
            or self._queue.qsize() * _TOGETHER >= _PAYLOADS_PENDING_MAX
        ):
            self.counts.payloads_dropped += 1
            return None
        return rows.copy()  # they may lie in a buffer that is used again

    def _work(self) -> None:
        more = True
        while more:
            taken, more = self._take()
            lines: list[bytes] = []
            for entry, rows in taken:
                try:
                    lines.append(line_of(entry))
                except Exception as error:  # noqa: BLE001  one bad entry must not stop the log
                    self._lost(1, error)
                if rows is not None:
                    self._keep(entry, rows)
            for block in _blocks(lines):
                self._append(block)
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            os.close(self._lock)

    def _take(self) -> tuple[list[_Line], bool]:
        """What waits, at least one, unless nothing comes any more; whether more may come."""
        taken = self._queue.get()
        return (taken, True) if taken is not None else ([], False)

    def _append(self, lines: list[bytes]) -> None:
        try:
            written = self._opened()[0].write(b"".join(lines))
        except (OSError, HybridgeError) as error:
            self._lost(len(lines), error)
            return
        self.counts.written += written
        if written < len(lines):
            self._lost(len(lines) - written, OSError("the disk took only a part"))
        else:
            self._works("lines")

    def _keep(self, entry: Entry, rows: Rows) -> None:
        try:
            kept = self._opened()[1].keep(entry.input_digest or digest_of(rows), rows)
        except (OSError, HybridgeError, ValueError) as error:
            self.counts.payloads_lost += 1
            self._fails("payloads", error)
            return
        self.counts.payloads_written += kept
        self.counts.payloads_lost += not kept
        self._works("payloads")

    def _opened(self) -> tuple[LogFile, PayloadFolder]:
        if self._file is None or self._payloads is None:
            stem, self._lock = claim(self._folder)
            settings = self._settings
            self._file = LogFile(
                self._folder / f"{stem}.log",
                bytes_max=settings.bytes_max, files_max=settings.files_max,
            )  # fmt: skip
            self._payloads = PayloadFolder(
                self._folder / f"{stem}-payloads", settings.payload_bytes_max
            )
        return self._file, self._payloads

    def _lost(self, lines: int, error: Exception) -> None:
        self.counts.lost += lines
        self._fails("lines", error)

    def _fails(self, what: str, error: Exception) -> None:
        if what not in self._failing:
            self._failing.add(what)
            folder = str(self._folder)
            log.error(
                "inference_log_failed", extra={"what": what, "folder": folder}, exc_info=error
            )

    def _works(self, what: str) -> None:
        if what in self._failing:
            self._failing.remove(what)
            log.info("inference_log_back", extra={"what": what, "lost": self.counts.lost})


def _allowance(per_s: float) -> TokenBucket | None:
    """With a second's worth at once; None: nothing at all."""
    return TokenBucket(per_s, max(1.0, per_s)) if per_s else None


def _blocks(lines: list[bytes]) -> Iterator[list[bytes]]:
    """In pieces of what may be written at once."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > BLOCK_BYTES:
            yield block
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield block
