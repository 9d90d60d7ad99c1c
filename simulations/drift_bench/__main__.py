"""`python -m simulations.drift_bench --write docs/drift.md`: 200 streams, on all cores.

Exit code 1 where a drift was never named, or too many alarms were wrong.
"""

import argparse
import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Final, get_args

from cloud.monitoring.drift.settings import DriftSettings
from cloud.training.shifts import SHIFTS
from shared.errors import HybridgeError
from simulations.drift_bench import report
from simulations.drift_bench.material import Material, make
from simulations.drift_bench.stream import Outcome, Stream, Where, run

_SEEDS: Final = 5
_QUIET: Final = 50
_PLACES: Final[tuple[Where, ...]] = get_args(Where)


def streams(seeds: int = _SEEDS, quiet: int = _QUIET) -> Iterator[Stream]:
    """Each shift in each place, `seeds` times, and those in which nothing drifts."""
    number = 0
    for shift in SHIFTS:
        for where in _PLACES:
            for _ in range(seeds):
                yield Stream(shift, where, number)
                number += 1
    for _ in range(quiet):
        yield Stream(None, "the fleet", number)
        number += 1


def main() -> int:
    """Run them, print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="file whose block is written anew")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="of each shift in each place")
    parser.add_argument("--quiet", type=int, default=_QUIET, help="streams in which nothing drifts")
    arguments = parser.parse_args()
    try:
        material = make(arguments.models)
    except HybridgeError as error:
        print(error, file=sys.stderr)
        return 2
    wanted = list(streams(arguments.seeds, arguments.quiet))
    results = dict[Stream, Outcome]()
    with Pool(initializer=_begin, initargs=(material,)) as pool:
        for one, found in pool.imap(_ran, wanted):
            results[one] = found
            print(f"\r{len(results)} of {len(wanted)} streams", end="", file=sys.stderr)
    print(file=sys.stderr)
    if arguments.write is not None:
        text = arguments.write.read_text("utf-8")
        arguments.write.write_text(report.replaced(text, results), "utf-8")
    print(report.block(results))
    wrong = report.missed(results)
    print("\n".join(wrong) or "every target met")
    return 1 if wrong else 0


_MATERIAL: list[Material] = []
"""Of this process."""


def _begin(material: Material) -> None:
    _MATERIAL.append(material)


def _ran(stream: Stream) -> tuple[Stream, Outcome]:
    return stream, run(stream, _MATERIAL[0], DriftSettings())


if __name__ == "__main__":
    sys.exit(main())
