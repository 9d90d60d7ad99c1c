"""`python -m simulations.cache_replay`: hit rates of the three policies on three streams."""

import argparse
from typing import get_args

from cloud.serving.caches.settings import PolicyName
from simulations.cache_replay.replay import replay
from simulations.cache_replay.traces import traces

PLACES = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--places", type=int, default=PLACES, help="entries that the cache holds")
    asked = parser.parse_args()
    names: tuple[PolicyName, ...] = get_args(PolicyName)
    print(f"hits among requests, {asked.places:,} places (us an access)")
    print("".join([f"{'':<20}", *(f"{name.upper():>18}" for name in names)]))
    for title, trace in traces(asked.seed, asked.places).items():
        cells = (replay(name, trace, asked.places) for name in names)
        row = (f"{cell.hit_share:>10.3f} ({cell.access_us:>4.2f})" for cell in cells)
        print("".join([f"{title:<20}", *(f"{cell:>18}" for cell in row)]))


if __name__ == "__main__":
    main()
