"""What an offline batch beside online traffic costs the traffic's p99, alone and beside in turn.

One batch for all rounds: it is stopped (SIGSTOP) while the traffic is alone. It and the server may
use every core, as in production; only the kernel and the batch's own manners keep them apart.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.generator import Running
from cloud.capacity.load.outcomes import Phase, phase
from shared.errors import Unavailable
from simulations.serve_bench import generator
from simulations.serve_bench.ours import Ours, ours_running, with_api_key
from simulations.serve_bench.overload import BUNDLE, CONFIG, fashion_request, find_capacity
from simulations.serve_bench.peers import REPOSITORY
from simulations.serve_bench.results import Mixed

SHARE: Final = 0.5
"""Of the capacity: where a region that has room for its peaks spends its day."""
PAIRS: Final = 8
SECONDS: Final = 4.0
"""Of each stretch, after `SETTLE_S`."""
SETTLE_S: Final = 1.0
QUEUE_DEPTH: Final = 16
"""Online requests that may wait while the batch goes on: one batch of theirs. At this share some
always wait at the moment one looks."""
_BATCH_FILES: Final = 40
_BATCH_ROWS: Final = 50_000
"""In each file: 10,000/s for more than three minutes, so that it never ends by itself."""
_START_S: Final = 60.0
Say = Callable[[str], None]


def measure(models: Path, folder: Path, say: Say, *, pairs: int = PAIRS) -> Mixed:
    """Alternate stretches of one continuous online load. Raises `Unavailable`."""
    asked = fashion_request()
    with ours_running(models / BUNDLE, folder / "mixed", asked, config=CONFIG) as ours:
        keyed = with_api_key(asked, ours.key)
        rate = SHARE * find_capacity(ours, keyed, folder, say)
        each_s = SETTLE_S + SECONDS
        order = [with_batch for pair in range(pairs) for with_batch in _pair(pair)]
        rows: list[tuple[int, float]] = []
        with _batch(models, folder / "batch", ours) as batch:

            def switch(running: Running) -> None:
                for number, with_batch in enumerate(order):
                    running.at(number * each_s)
                    batch.let(run=with_batch)
                    if with_batch:
                        running.at((number + 1) * each_s)
                        rows.append((batch.rows(), each_s))
                        say(f"  batch: {batch.rows():,} samples so far; {batch.state()}")

            begins_with = batch.rows()
            found = generator.run(
                ours.server.url, keyed, [Stretch(rate, len(order) * each_s)], folder,
                meanwhile=switch,
            )  # fmt: skip
    phases: dict[bool, list[Phase]] = {True: [], False: []}
    for number, with_batch in enumerate(order):
        begins = number * each_s + SETTLE_S
        phases[with_batch].append(phase(found, begins, begins + SECONDS))
    done = rows[-1][0] - begins_with
    return Mixed(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        online_share=SHARE, online_per_second=rate,
        alone=tuple(phases[False]), beside=tuple(phases[True]),
        batch_per_second=done / sum(seconds for _, seconds in rows),
    )  # fmt: skip


def _pair(number: int) -> tuple[bool, bool]:
    """Who begins changes every time."""
    return (False, True) if number % 2 == 0 else (True, False)


class _Batch:
    """A running `hybridge batch run`."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path) -> None:
        self._process, self._said = process, said

    def let(self, *, run: bool) -> None:
        """Let it run or hold it. Raises `Unavailable` if it has ended."""
        if self._process.poll() is not None:
            last = self._said.read_text()[-300:]
            raise Unavailable(f"the batch ended with {self._process.returncode}: {last}")
        os.kill(self._process.pid, signal.SIGCONT if run else signal.SIGSTOP)

    def rows(self) -> int:
        """Samples that it says it has done."""
        return int(self._last().get("rows", 0))

    def state(self) -> str:
        """What it says it is at."""
        return str(self._last().get("state", ""))

    def _last(self) -> dict[str, Any]:
        lines = [line for line in self._said.read_text().splitlines() if '"progress"' in line]
        return dict(json.loads(lines[-1])) if lines else {}


@contextmanager
def _batch(models: Path, folder: Path, ours: Ours) -> Iterator[_Batch]:
    """Run one that has begun to answer, held until it is let."""
    images = folder / "in"
    images.mkdir(parents=True)
    rows = np.random.default_rng(4).integers(0, 256, (_BATCH_ROWS, 28, 28), np.uint8)
    np.save(images / "0.npy", rows)
    for number in range(1, _BATCH_FILES):
        os.link(images / "0.npy", images / f"{number}.npy")
    said = folder / "said"
    with said.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  our own module
            [
                sys.executable, "-m", "cloud.cli", "batch", "run", str(images),
                str(folder / "out"), "--bundle", str((models / BUNDLE).absolute()),
                "--online", ours.server.url, "--queue-depth", str(QUEUE_DEPTH), "--json",
            ],
            stdout=file, stderr=file, cwd=REPOSITORY,
            start_new_session=True,  # else it makes one, in a child that would not be held
            env={**os.environ, "HYBRIDGE_API_KEY": ours.key},
        )  # fmt: skip
    batch = _Batch(process, said)
    try:
        until = time.monotonic() + _START_S
        while not batch.rows():
            if process.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"the batch did not begin: {said.read_text()[-300:]}")
            time.sleep(0.2)
        batch.let(run=False)
        yield batch
    finally:
        if process.poll() is None:
            process.kill()  # a stopped one takes no SIGTERM
        process.wait()
