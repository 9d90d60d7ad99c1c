"""`python -m simulations.drift_bench --write docs/drift.md`: 200 streams, on all cores.

Exit code 1 where a target is missed: a drift was never named, or too late, or too many alarms were
wrong or said a wrong cause.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Final, get_args

from cloud.monitoring.drift.settings import DriftSettings
from cloud.training.shifts import SHIFTS
from shared.errors import HybridgeError
from simulations.drift_bench import report
from simulations.drift_bench.material import Material, make
from simulations.drift_bench.stream import Stream, run
from simulations.drift_bench.verdict import Outcome, Where

_SEEDS: Final = 5
_QUIET: Final = 50
_FIRST_SEED: Final = 2_000
"""Settings were chosen by streams of smaller ones (`device_times` by 150 to 199, `Distances.psi_least` by
1,000 to 1,199). Who chooses one by what the streams from here on show reports others from then on, so
that they say something."""
_PLACES: Final[tuple[Where, ...]] = get_args(Where)


def streams(
    seeds: int = _SEEDS, quiet: int = _QUIET, first_seed: int = _FIRST_SEED
) -> Iterator[Stream]:
    """Each shift in each place, `seeds` times, and those in which nothing drifts; no seed twice."""
    seed = first_seed
    for shift in SHIFTS:
        for where in _PLACES:
            for _ in range(seeds):
                yield Stream(shift, where, seed)
                seed += 1
    for _ in range(quiet):
        yield Stream(None, "the fleet", seed)
        seed += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them, print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m simulations.drift_bench", description=__doc__)
    parser.add_argument("--write", type=Path, help="file whose block is written anew")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="of each shift in each place")
    parser.add_argument("--quiet", type=int, default=_QUIET, help="days in which nothing drifts")
    parser.add_argument(
        "--first-seed", type=int, default=_FIRST_SEED, help="others, for who chooses settings"
    )
    asked = parser.parse_args(arguments)
    if min(asked.seeds, asked.quiet) < 1:
        parser.error("--seeds and --quiet are 1 or more: no target is met by what was not tried")
    try:
        material = make(asked.models)
    except HybridgeError as error:
        print(error, file=sys.stderr)
        return 2
    wanted = list(streams(asked.seeds, asked.quiet, asked.first_seed))
    results = dict[Stream, Outcome]()
    with Pool(initializer=_begin, initargs=(material,)) as pool:
        for one, found in pool.imap(_ran, wanted):
            results[one] = found
            print(f"\r{len(results)} of {len(wanted)} streams", end="", file=sys.stderr)
    print(file=sys.stderr)
    if asked.write is not None:
        text = asked.write.read_text("utf-8")
        asked.write.write_text(report.replaced(text, results), "utf-8")
    print(report.block(results))
    return 1 if report.missed(results) else 0


_MATERIAL: list[Material] = []
"""Of this process."""


def _begin(material: Material) -> None:
    _MATERIAL.append(material)


def _ran(stream: Stream) -> tuple[Stream, Outcome]:
    return stream, run(stream, _MATERIAL[0], DriftSettings())


if __name__ == "__main__":
    sys.exit(main())
