"""`make bench-registry`: transfers, deltas, catalog, replica; exit code 1 when a target is missed.

Three minutes, most of them bsdiff's.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from simulations.postgres import running_postgres
from simulations.registry_bench import catalog, deltas, replication, transfer
from simulations.registry_bench.catalog import Operations
from simulations.registry_bench.report import Results, markdown, missed, replaced

GROUPS = ("transfer", "deltas", "catalog", "replica")


def main() -> int:
    """Measure, print, and say whether every target is met."""
    parser = argparse.ArgumentParser(
        prog="python -m simulations.registry_bench", description=__doc__
    )
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--base", type=Path, default=Path("models/fashion-edge"))
    parser.add_argument("--rounds", type=int, default=7, help="of the transfers")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--write", type=Path, help="a Markdown file with the block's markers")
    asked = parser.parse_args()
    results = Results(
        transfers=transfer.measure(asked.base, rounds=asked.rounds)
        if _is(asked, "transfer")
        else (),
        deltas=deltas.measure() if _is(asked, "deltas") else (),
        operations=_catalog() if _is(asked, "catalog") else (),
        lag=replication.measure() if _is(asked, "replica") else None,
    )
    print(markdown(results))
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(results), indent=1))
    if asked.write is not None:
        asked.write.write_text(replaced(asked.write.read_text(), results))
    misses = missed(results)
    for miss in misses:
        print(f"missed: {miss}", file=sys.stderr)
    return 1 if misses else 0


def _is(asked: argparse.Namespace, group: str) -> bool:
    return group in asked.only


def _catalog() -> list[Operations]:
    """PostgreSQL waits for its disk as SQLite does."""
    with tempfile.TemporaryDirectory() as folder:
        found = catalog.measure("SQLite", f"sqlite:///{folder}/catalog.db")
    durable = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with running_postgres(**durable) as server:
        return found + catalog.measure("PostgreSQL", server.new_database())


if __name__ == "__main__":
    sys.exit(main())
