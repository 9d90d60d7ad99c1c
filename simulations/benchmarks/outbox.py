"""Durable escalations/s at 1 KB, group commit, against bare SQLite writing the same rows."""

import asyncio
import os
import sqlite3
import time

from edge.answers import Answer
from edge.journal.journal import Journal
from edge.journal.rows import Pending
from edge.journal.writes import Bounds, Opened
from shared.new_ids import new_sample_id
from shared.wire.envelope import Escalation, Payload
from simulations.benchmarks.report import ROUNDS, Row, medians
from simulations.benchmarks.setting import Setting

_ROWS = 2_000
_BYTES = 1024
_COMMIT = 100
TARGET_PER_S = 2_000.0


async def measure(setting: Setting) -> tuple[Row, Row]:
    """Against the target, which is absolute, and against the floor, which is for information."""
    journal = Journal(setting.folder / "outbox.db", Bounds(1000), gap_s_max=43_200)
    writing = asyncio.create_task(journal.run())

    async def ours() -> float:
        pending = [_pending() for _ in range(_ROWS)]
        started = time.perf_counter()
        for first in range(0, _ROWS, _COMMIT):
            journal.record(*map(Opened, pending[first : first + _COMMIT]))
            await journal.durable()
        return _ROWS / (time.perf_counter() - started)

    bare_db = sqlite3.connect(setting.folder / "bare.db", isolation_level=None)
    bare_db.execute("PRAGMA journal_mode = WAL")
    bare_db.execute("PRAGMA synchronous = FULL")
    bare_db.execute("CREATE TABLE t (id BLOB PRIMARY KEY, data BLOB)")

    def bare() -> float:
        rows = [(os.urandom(16), os.urandom(_BYTES)) for _ in range(_ROWS)]
        started = time.perf_counter()
        for first in range(0, _ROWS, _COMMIT):
            bare_db.execute("BEGIN")
            bare_db.executemany("INSERT INTO t VALUES (?, ?)", rows[first : first + _COMMIT])
            bare_db.execute("COMMIT")
        return _ROWS / (time.perf_counter() - started)

    await ours()
    bare()
    pairs = [(await ours(), bare()) for _ in range(ROUNDS)]
    journal.drain()
    await writing
    bare_db.close()
    value, floor, ratio = medians(pairs)
    return (
        Row("outbox, 1 KB, durable", value, "target", TARGET_PER_S, "samples/s", value / TARGET_PER_S, ">=", 1.0),
        Row("outbox, 1 KB, durable", value, "bare SQLite", floor, "samples/s", ratio, ">=", 0.0),
    )  # fmt: skip


def _pending() -> Pending:
    sample = new_sample_id()
    answer = Answer(sample, 1, 0.5, "edge", "escalated", "1.0.0", final=False, latency_ms=0.1)
    payload = Payload("raw", "uint8", (32, 32), os.urandom(_BYTES))
    escalation = Escalation(sample, "bench", "1.0.0", "escalated", 0, time.time(), 1, 0.5, payload)
    return Pending(answer, escalation, (0.0,) * 10, 1e12)
