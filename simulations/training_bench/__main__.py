"""`make bench-training`: the online p99 with a training job at full load and without, in the same run.

Exit code 1 where the job costs more than a tenth. Two minutes, after the job has begun. One continuous
open loop; the job is held (SIGSTOP) while the traffic is alone. Who begins changes with each pair, and
the median over pairs of the ratio counts. Worth something only on a machine that does nothing else.
"""

import argparse
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.generator import Running
from cloud.capacity.load.outcomes import Phase, phase
from simulations.serve_bench import generator
from simulations.serve_bench.ours import ours_running, with_api_key
from simulations.serve_bench.overload import BUNDLE, CONFIG, fashion_request
from simulations.training_bench.worker import training

TARGET: Final = 1.10
_SETTLE_S: Final = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m simulations.training_bench", description=__doc__
    )
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--rate", type=float, default=200.0, help="online requests a second")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each stretch")
    parser.add_argument("--cpus", type=int, default=2, help="threads of the job")
    parser.add_argument("--worker", default="", help="lines of [worker], as 'cores = [1]'")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started ends with it
    with tempfile.TemporaryDirectory() as name:
        return _measure(asked, Path(name))


def _measure(asked: argparse.Namespace, folder: Path) -> int:
    order = [beside for pair in range(asked.pairs) for beside in _pair(pair)]
    each_s = _SETTLE_S + asked.seconds
    request = fashion_request()
    bundle = (asked.models / BUNDLE).absolute()
    with (
        training(folder / "training", asked.cpus, asked.worker) as job,
        ours_running(bundle, folder / "online", request, config=CONFIG) as ours,
    ):
        print(f"kept apart by: {job.kept_apart_by}")
        before = job.cpu_s()

        def switch(running: Running) -> None:
            for number, beside in enumerate(order):
                running.at(number * each_s)
                job.let(run=beside)

        stretches = [Stretch(asked.rate, len(order) * each_s)]
        found = generator.run(
            ours.server.url, with_api_key(request, ours.key), stretches, folder, meanwhile=switch
        )
        worked_s = job.cpu_s() - before
    phases = [
        phase(found, number * each_s + _SETTLE_S, (number + 1) * each_s)
        for number in range(len(order))
    ]
    return _told(order, phases, worked_s / (asked.pairs * each_s), asked.cpus)


def _pair(number: int) -> tuple[bool, bool]:
    return (False, True) if number % 2 == 0 else (True, False)


def _told(order: list[bool], phases: list[Phase], cores: float, cpus: int) -> int:
    """`cores`: what the job had while it was let."""
    alone = [one for one, beside in zip(phases, order, strict=True) if not beside]
    beside = [one for one, is_beside in zip(phases, order, strict=True) if is_beside]
    ratios = [b.answered_p99_ms / a.answered_p99_ms for a, b in zip(alone, beside, strict=True)]
    for name, ones in (("alone", alone), ("beside training", beside)):
        print(
            f"{name}: p50 {statistics.median(one.answered_p50_ms for one in ones):.2f} ms, "
            f"p99 {statistics.median(one.answered_p99_ms for one in ones):.2f} ms, "
            f"refused {sum(one.refused for one in ones)}, failed {sum(one.failed for one in ones)}"
        )
    print(f"training had {cores:.2f} cores of {cpus} asked for")
    ratio = statistics.median(ratios)
    spread = ", ".join(f"{one:.2f}" for one in sorted(ratios))
    print(f"p99 beside / alone, pair by pair: {spread}")
    print(f"median ratio {ratio:.3f}, target <= {TARGET:.2f}")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
