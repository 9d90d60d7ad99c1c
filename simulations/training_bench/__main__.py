"""`make bench-training`: the online p99 with a training job at full load and without, in the same run.

Server and load generator have the first core, the job all others, as docs/training.md advises for one
machine; `--cpus` and `--worker` ask for something else, and then nothing is bound that they do not
bind. Exit code 1 where the job costs more than a tenth. Eight minutes. One continuous open loop of short
stretches: alone, beside the job, and beside a loop that only spins in the job's place, which is what a
busy core costs on this machine whatever it computes (the others are held by SIGSTOP). All three see the
same minutes of a noisy machine, in an order that changes. All requests of a side make its p99.
`--variants` tries ways to keep the job apart, one row each, about a minute each; exit code 1 where none
holds. Worth something only on a machine that does nothing else.
"""

import argparse
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.generator import Running
from cloud.training.documents import NetworkName
from simulations.serve_bench import generator
from simulations.serve_bench.ours import ours_running, with_api_key
from simulations.serve_bench.overload import BUNDLE, CONFIG, fashion_request, pinned
from simulations.training_bench.verdict import Row, order_of, row, table, told
from simulations.training_bench.worker import spinning, training

_SETTLE_S: Final = 0.1
_ROUNDS: Final = 280
_ROUNDS_OF_VARIANT: Final = 35


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    cpus: int
    """Threads of the job."""
    worker: str = ""
    """Lines of `[worker]`."""
    pinned: tuple[str, ...] = ()
    """Words that begin the server and the load generator on a core of their own."""


def _cores_apart() -> Variant:
    """The first core serves and asks, all others train; where there is one, both have it."""
    cores = sorted(os.sched_getaffinity(0))
    others = cores[1:] or cores
    return Variant("cores apart", len(others), f"cores = {others}", pinned(0))


VARIANTS: Final = (
    _cores_apart(),
    Variant("as it is", 2),
    Variant("SCHED_IDLE alone", 2, 'cgroup = "never"'),
    Variant("cpus=1", 1),
    Variant("cores=[1]", 2, "cores = [1]"),
    Variant("cores=[1], cpus=1", 1, "cores = [1]"),
    Variant("gives_way=false", 2, "gives_way = false"),
)
"""The last is what the others are better than."""


def main(arguments: list[str] | None = None) -> int:
    asked = _asked(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started ends with it
    rounds = asked.rounds or (_ROUNDS_OF_VARIANT if asked.variants else _ROUNDS)
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        for number, variant in enumerate(_variants(asked)):
            rows.append(_measured(variant, Path(folder, str(number)), asked, rounds))
            print(told(rows[-1]), flush=True)
    if asked.variants:
        print(table(rows))
    return 0 if any(one.holds for one in rows) else 1


def _variants(asked: argparse.Namespace) -> tuple[Variant, ...]:
    if asked.variants:
        return VARIANTS
    if asked.cpus is None and not asked.worker:
        return (_cores_apart(),)
    return (Variant("as asked", asked.cpus or len(os.sched_getaffinity(0)), asked.worker),)


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m simulations.training_bench", description=__doc__
    )
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--rate", type=float, default=200.0, help="online requests a second")
    parser.add_argument(
        "--rounds", type=int, help=f"{_ROUNDS}; of each variant {_ROUNDS_OF_VARIANT}"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="of each stretch")
    parser.add_argument("--variants", action="store_true", help="try ways to keep the job apart")
    parser.add_argument(
        "--network", choices=get_args(NetworkName), default="cloud-net",
        help="what is trained: the big one, whose steps do not fit the cache, or the small one, by the "
        "loop's settings",
    )  # fmt: skip
    parser.add_argument("--cpus", type=int, help="threads of the job")
    parser.add_argument("--worker", default="", help="lines of [worker], as 'cores = [1]'")
    return parser.parse_args(arguments)


def _measured(variant: Variant, folder: Path, asked: argparse.Namespace, rounds: int) -> Row:
    order, each_s = order_of(rounds), _SETTLE_S + asked.seconds
    request, bundle = fashion_request(), (asked.models / BUNDLE).absolute()
    with (
        ours_running(
            bundle, folder / "online", request, config=CONFIG, prefix=variant.pinned
        ) as ours,
        training(folder / "training", variant.cpus, variant.worker, asked.network) as job,
        spinning(job, variant.cpus) as loop,
    ):
        may_have = min(variant.cpus, len(os.sched_getaffinity(job.pids[0])))
        before = job.cpu_s()

        def switch(running: Running) -> None:
            for number, side in enumerate(order):
                running.at(number * each_s)
                job.let(run=side == "training")
                loop.let(run=side == "spinning")

        found = generator.run(
            ours.server.url, with_api_key(request, ours.key),
            [Stretch(asked.rate, len(order) * each_s)], folder, prefix=variant.pinned, meanwhile=switch,
        )  # fmt: skip
        cores = (job.cpu_s() - before) / (rounds * each_s)
    stretches = [
        found.between(number * each_s + _SETTLE_S, (number + 1) * each_s)
        for number in range(len(order))
    ]
    return row(variant.name, job.kept_apart_by, order, stretches, cores, may_have)


if __name__ == "__main__":
    sys.exit(main())
