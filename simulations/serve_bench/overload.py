"""Twice the capacity for half a minute: who is answered, how soon the rest hears, and what is left.

Open loop. One server process on one core, the generator on another, so that neither the load nor
what it costs to make it depends on how busy the server is.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.generator import Running
from cloud.capacity.load.outcomes import phase
from simulations.serve_bench import generator, process, wrk
from simulations.serve_bench.accounting import recovered_s, slope
from simulations.serve_bench.ours import Ours, ours_running, with_api_key
from simulations.serve_bench.results import Overload
from simulations.serve_bench.verdicts import OVERLOAD_P99_RATIO_MAX
from simulations.serve_bench.wire_forms import V2_PATH, Request, v2_binary

CONFIG: Final = Path(__file__).parent / "overload.toml"
BUNDLE: Final = "fashion-cloud"
"""Chosen because a run costs it ten times what a refusal costs the server."""
LOW: Final = 0.8
"""Of the capacity: what a server should carry well."""
HIGH: Final = 2.0
WARM_UP_S: Final = 3.0
LOW_S: Final = 15.0
OVERLOAD_S: Final = 30.0
AFTER_S: Final = 8.0
_CAPACITY_AT: Final = (16, 32, 64)
_CAPACITY_RUNS: Final = 3
_SAMPLE_S: Final = 0.5
_RECOVERY_WINDOW_S: Final = 0.5
Say = Callable[[str], None]


def measure(models: Path, folder: Path, say: Say, *, overload_s: float = OVERLOAD_S) -> Overload:
    """Find the capacity, then load with 80%, 200% and 80% of it without a break."""
    asked = fashion_request()
    with ours_running(
        models / BUNDLE, folder / "overload", asked, config=CONFIG, prefix=pinned(0)
    ) as ours:
        keyed = with_api_key(asked, ours.key)
        capacity = find_capacity(ours, keyed, folder, say, pinned(1))
        resident: list[tuple[float, float]] = []
        low_ends = WARM_UP_S + LOW_S
        high_ends = low_ends + overload_s
        ends = high_ends + AFTER_S

        def watch(running: Running) -> None:
            pids = ours.server.pids
            running.at(low_ends)
            while (at := time.monotonic() - running.began) < high_ends:
                resident.append((at, process.resident_mb(pids)))
                running.at(at + _SAMPLE_S)

        found = generator.run(
            ours.server.url, keyed,
            (
                Stretch(LOW * capacity, low_ends), Stretch(HIGH * capacity, overload_s),
                Stretch(LOW * capacity, AFTER_S),
            ),
            folder, prefix=pinned(1), meanwhile=watch,
        )  # fmt: skip
    low, high = phase(found, WARM_UP_S, low_ends), phase(found, low_ends, high_ends)
    second_half = resident[len(resident) // 2 :]
    say(
        f"  p99 {low.answered_p99_ms:.1f} ms at 80%, {high.answered_p99_ms:.1f} ms at 200%; "
        f"refused at p99 {high.refused_p99_ms:.1f} ms"
    )
    return Overload(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"), model=BUNDLE,
        capacity_per_second=capacity, at_80=low, at_200=high,
        recovered_s=recovered_s(
            found, high_ends, OVERLOAD_P99_RATIO_MAX * low.answered_p99_ms, _RECOVERY_WINDOW_S,
            ends,
        ),
        resident_mb=tuple(round(mb, 2) for _, mb in resident),
        growth_mb_per_minute=60
        * slope([at for at, _ in second_half], [mb for _, mb in second_half]),
    )  # fmt: skip


def find_capacity(
    ours: Ours, keyed: Request, folder: Path, say: Say, prefix: tuple[str, ...] = ()
) -> float:
    """Most answers a second that a closed loop gets, over several concurrencies."""
    script = wrk.write_script(folder, "capacity", keyed)
    wrk.run(ours.server.url, script, _CAPACITY_AT[0], 1, prefix)
    best = 0.0
    for connections in _CAPACITY_AT:
        runs = [
            wrk.run(ours.server.url, script, connections, 1, prefix).per_second
            for _ in range(_CAPACITY_RUNS)
        ]
        best = max(best, float(np.median(runs)))
    say(f"  capacity {best:,.0f}/s")
    return best


def fashion_request() -> Request:
    """One image as V2 binary; what it shows costs the model nothing more or less."""
    image = np.random.default_rng(3).integers(0, 256, (1, 28, 28), np.uint8)
    return v2_binary(V2_PATH.format(model=BUNDLE), "image", image, "logits")


def pinned(core: int) -> tuple[str, ...]:
    """Give the words that start a program on one core; none where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return () if len(cores) < 2 else ("taskset", "-c", str(cores[core]))
