"""`python -m simulations.drift_bench --write docs/drift.md`: 200 streams, under two minutes on one core.

Exit code 1 where a drift was never named.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

from cloud.monitoring.drift.settings import DriftSettings
from cloud.training.shifts import SHIFTS
from shared.errors import HybridgeError
from simulations.drift_bench import report
from simulations.drift_bench.material import make
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
    arguments = parser.parse_args()
    began = time.process_time()
    try:
        material = make(arguments.models)
    except HybridgeError as error:
        print(error, file=sys.stderr)
        return 2
    results: dict[Stream, Outcome] = {
        one: run(one, material, DriftSettings()) for one in streams()
    }  # fmt: skip
    if arguments.write is not None:
        text = arguments.write.read_text("utf-8")
        arguments.write.write_text(report.replaced(text, results), "utf-8")
    print(report.block(results))
    print(f"{time.process_time() - began:.0f} s of one core", file=sys.stderr)
    return 1 if report.misses(results) else 0


if __name__ == "__main__":
    sys.exit(main())
