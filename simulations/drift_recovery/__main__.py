"""Fine-tune on what devices send under each of the six shifts; exit code 1 when a target is missed."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cloud.training import fashion_mnist
from cloud.training.shifts import SHIFTS
from simulations.drift_recovery import table
from simulations.drift_recovery.recovery import STREAM, recover
from simulations.drift_recovery.trials import ABLATED, ABLATIONS, WHOLE, Trial


def main() -> int:
    """Print a row as soon as it is measured, and whether every target is met."""
    asked = _asked()
    data = fashion_mnist.load()
    lines, found = [table.HEAD], []
    print(table.HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for number, (trial, kind, seed) in enumerate(_trials(asked)):
            place = Path(folder, str(number))
            one = recover(data, kind, trial, seed, asked.models, place, asked.seen)
            if trial is WHOLE:
                found.append(one)
            lines.append(table.row(one))
            print(lines[-1], flush=True)
    wrong = table.missed(found) if found else []
    end = "; ".join(wrong) or f"Every target met; mean regained {table.mean_regained(found):.1%}."
    print(end)
    if asked.write:
        table.write(asked.write, [*lines, "", end])
    return 1 if wrong else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m simulations.drift_recovery", description=__doc__
    )
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--shifts", nargs="+", choices=list(SHIFTS), default=list(SHIFTS))
    parser.add_argument("--seen", type=int, default=STREAM, help="images that a device sees")
    parser.add_argument("--ablations", action="store_true", help="also without each part")
    parser.add_argument("--write", type=Path, help="a page with markers, where the table goes")
    asked = parser.parse_args()
    if not 0 < asked.seen <= STREAM:
        parser.error(
            f"--seen {asked.seen}: at most {STREAM}; the other test images are measured on"
        )
    return asked


def _trials(asked: argparse.Namespace) -> Iterator[tuple[Trial, str, int]]:
    for seed in asked.seeds:
        for kind in asked.shifts:
            yield WHOLE, kind, seed
    if asked.ablations:
        for kind in ABLATED:
            for trial in ABLATIONS:
                yield trial, kind, asked.seeds[0]


if __name__ == "__main__":
    sys.exit(main())
