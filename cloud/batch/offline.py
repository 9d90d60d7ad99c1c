"""The offline shape: a bundle over a folder or a store, in a process that gives way to all others."""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cloud.batch import governor
from cloud.batch.answer_folder import SUCCESS, AnswerFolder
from cloud.batch.gate import Gate
from cloud.batch.hours import Hours
from cloud.batch.job import Job, Layout
from cloud.batch.journal import Journal, Totals, remaining
from cloud.batch.load_reader import LoadReader
from cloud.batch.locate import locate
from cloud.batch.offline_model import ROWS_MAX, OfflineModel
from cloud.batch.progress import Progress, progress
from cloud.batch.read_ahead import read_ahead
from cloud.batch.reading import rows_expected
from cloud.batch.source import Found, Source
from cloud.batch.work import Work
from shared.bundle.reader import Bundle, open_bundle
from shared.errors import Malformed, Refused

_REPORT_S = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    """What `hybridge batch run` is asked for; None leaves the choice to the run."""

    source: str
    out: Path
    bundle: Path
    engine: str | None = None
    threads: int = 1
    batch_rows: int | None = None
    part_rows: int = 4096
    layout: Layout = "jsonl"
    probabilities: bool = False
    rows_max: int | None = None
    strict: bool = False
    hours: Hours | None = None
    waits: bool = True
    online: str | None = None
    api_key: str | None = field(default=None, repr=False)
    rules: governor.Rules = field(default_factory=governor.Rules)
    pause_ms: float = 10.0
    """How long a batch may take at most, so how soon it can stop."""


@dataclass(frozen=True, slots=True)
class Ended:
    """`complete`: every input is done or failed. Totals are of all runs so far."""

    how: Literal["complete", "limited", "stopped"]
    totals: Totals
    rows: int  # of this run
    seconds: float


async def run(order: Order, report: Callable[[Progress], None], stop: asyncio.Event) -> Ended:
    """Work until all is done, `rows_max`, or `stop`; `report` hears of it twice a second.

    Raises `OutsideHours`, `InUse`, `Refused` (another job's folder; strict), or `Unavailable`: what
    was answered up to the last part is kept, and the next run goes on.
    """
    source = locate(order.source)
    _refuse_nested(order)
    async with AsyncExitStack() as open_parts:
        load = None
        if order.online is not None:
            load = await open_parts.enter_async_context(LoadReader(order.online, order.api_key))
        gate = Gate(
            stop=stop, today=lambda: datetime.now(UTC), now=time.monotonic, hours=order.hours,
            waits=order.waits, load=load, rules=order.rules,
        )  # fmt: skip
        journal = open_parts.enter_context(Journal(order.out))
        if not await gate.hours_open():
            return Ended("stopped", journal.totals(), 0, 0.0)
        bundle = await asyncio.to_thread(open_bundle, order.bundle)
        model = await asyncio.to_thread(_model, order, bundle, journal.job())
        open_parts.callback(model.close)
        job = _job(order, source, bundle, model, journal.job())
        journal.begin(job)
        return await _run(order, job, journal, source, model, gate, report)


async def _run(
    order: Order, job: Job, journal: Journal, source: Source, model: OfflineModel, gate: Gate,
    report: Callable[[Progress], None],
) -> Ended:  # fmt: skip
    folder = AnswerFolder(order.out, journal, job)
    left = remaining(await asyncio.to_thread(source.find), journal.entries())
    if left or not (order.out / SUCCESS).exists():
        folder.tidy()
    work = Work(
        job, model.labels, folder, answer=model.answer, gate=gate,
        rows_max=order.rows_max, strict=order.strict,
    )  # fmt: skip
    began = time.monotonic()
    try:
        async with _reporting(work, gate, left, model.shape, report):
            reads = read_ahead(source, (found for found, _ in left), model.shape)
            async with aclosing(reads):
                at_end = await work.run(reads, {found.name: rows for found, rows in left})
    finally:
        await asyncio.to_thread(folder.write_errors, journal.failures())
    seconds = time.monotonic() - began
    totals = journal.totals()
    if not at_end:
        limited = work.tally.rows == order.rows_max
        return Ended("limited" if limited else "stopped", totals, work.tally.rows, seconds)
    if order.strict and totals.failed:
        raise Malformed(f"{totals.failed} inputs failed in an earlier run; errors.jsonl names them")
    await asyncio.to_thread(folder.write_summary, totals.inputs, totals.failed)
    return Ended("complete", totals, work.tally.rows, seconds)


def _refuse_nested(order: Order) -> None:
    """Answers among the inputs would be read as inputs."""
    if "://" not in order.source and order.out.resolve().is_relative_to(
        Path(order.source).resolve()
    ):
        raise Refused(f"{order.out}: lies inside {order.source}; write the answers elsewhere")


def _model(order: Order, bundle: Bundle, before: Job | None) -> OfflineModel:
    """What was begun with one variant goes on with it, whatever is fastest now."""
    wanted = order.engine
    if before is not None and before.variant is not None:
        if wanted not in (None, before.variant, before.variant.split("/", maxsplit=1)[0]):
            raise Refused(
                f"{order.out}: was begun with {before.variant}, not {wanted}; "
                "leave --engine out, or name an empty folder"
            )
        wanted = before.variant
    rows_max = order.batch_rows or (before.batch_rows if before else ROWS_MAX)
    return OfflineModel(bundle, wanted=wanted, threads=order.threads, rows_max=rows_max)


def _job(
    order: Order, source: Source, bundle: Bundle, model: OfflineModel, before: Job | None
) -> Job:
    batch_rows = order.batch_rows or (before.batch_rows if before else None)
    return Job(
        source=source.where,
        model=bundle.manifest.name,
        version=bundle.manifest.version,
        bundle_sha256=hashlib.sha256(bundle.manifest_bytes).hexdigest(),
        variant=model.variant,
        batch_rows=batch_rows
        or governor.batch_rows(model.curve.cost_s, order.pause_ms / 1e3, ROWS_MAX),
        part_rows=order.part_rows,
        layout=order.layout,
        probabilities=order.probabilities,
    )


@asynccontextmanager
async def _reporting(
    work: Work, gate: Gate, left: Sequence[tuple[Found, int]], shape: tuple[int, ...],
    report: Callable[[Progress], None],
) -> AsyncGenerator[None]:  # fmt: skip
    """Report while the block runs, and once more at its end."""
    began, row_bytes = time.monotonic(), math.prod(shape)
    expected = sum(rows_expected(f.name, f.size_bytes, row_bytes) - rows for f, rows in left)
    over = asyncio.Event()

    def tell() -> None:
        report(
            progress(
                work.tally, state=gate.state, rows_expected=expected, inputs_total=len(left),
                elapsed_s=time.monotonic() - began, share=gate.share,
            )
        )  # fmt: skip

    async def ticks() -> None:
        while not over.is_set():
            tell()
            with suppress(TimeoutError):
                async with asyncio.timeout(_REPORT_S):
                    await over.wait()

    ticking = asyncio.create_task(ticks())
    try:
        yield
    finally:
        over.set()
        await ticking
        tell()
