"""Catalog operations a second, on SQLite and on PostgreSQL: from one thread, and from eight at once.

A write is one command: decided, chained into the log, projected and committed to disk.
"""

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import AddDelta, SetModel
from cloud.registry.documents import Delta, Gate, Runner
from cloud.registry.store.database import RegistryDatabase

_THREADS = 8
_MODELS = 50


@dataclass(frozen=True, slots=True)
class Operations:
    """How often a second `threads` callers together did it."""

    database: str
    what: str
    threads: int
    per_s: float


def measure(database: str, url: str, seconds: float = 2.0) -> list[Operations]:
    """Makes its tables in the database at `url`."""
    opened = RegistryDatabase(url)
    opened.open()
    try:
        catalog = Catalog(opened)
        for number in range(_MODELS):
            catalog.apply(SetModel(f"model-{number}", "bench", Gate()), "bench", time.time())
        fresh = itertools.count(1)
        runs: list[tuple[str, Callable[[], object]]] = [
            ("a command, committed", lambda: _write(catalog, next(fresh))),
            ("a runner's report", lambda: _report(catalog, next(fresh))),
            ("a model read", lambda: catalog.model("model-7")),
            ("100 entries of the log read", lambda: catalog.log(0, 100)),
        ]
        return [
            Operations(database, what, threads, _rate(run, threads, seconds))
            for what, run in runs
            for threads in (1, _THREADS)
        ]
    finally:
        opened.close()


def _write(catalog: Catalog, number: int) -> None:
    one, other = f"{number:064x}", f"{number + 2**200:064x}"
    catalog.apply(
        AddDelta(Delta(from_sha256=one, to_sha256=other, sha256=one, bytes=1)), "bench", 1.0
    )


def _report(catalog: Catalog, number: int) -> None:
    catalog.report_runner(
        Runner(
            name=f"device-{number % 500}", model="model-7", version="1.0.0",
            variant="onnxruntime/int8", seen_at=time.time(),
        )
    )  # fmt: skip


def _rate(run: Callable[[], object], threads: int, seconds: float) -> float:
    until = time.perf_counter() + seconds

    def caller() -> int:
        for done in itertools.count(1):
            run()
            if time.perf_counter() > until:
                return done
        raise AssertionError

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as callers:
        done = sum(one.result() for one in [callers.submit(caller) for _ in range(threads)])
    return done / (time.perf_counter() - began)
