"""`make bench`: five measurements, one table; exit code 1 when a target is missed."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from simulations.benchmarks import agent_rate, batching, memory, outbox, round_trip
from simulations.benchmarks.report import Row
from simulations.benchmarks.setting import Setting

STEPS: dict[str, Callable[[Setting], Awaitable[Sequence[Row]]]] = {
    "agent": agent_rate.measure,
    "round-trip": round_trip.measure,
    "batching": batching.measure,
    "outbox": outbox.measure,
    "memory": memory.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulations.benchmarks", description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--only", nargs="*", choices=sorted(STEPS), default=list(STEPS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybridge-bench-") as folder:
        images = np.load(arguments.models / "fashion-mnist-test-2000.npz")["images"]
        rows = asyncio.run(
            _all(Setting(arguments.models.absolute(), Path(folder), images), arguments.only)
        )
    table = Table(title="Medians of interleaved runs on this machine, now", title_justify="left")
    for heading in ("what", "ours", "floor", "ratio", "target", ""):
        table.add_column(heading, justify="left" if heading in ("what", "floor", "") else "right")
    for row in rows:
        table.add_row(*_cells(row))
    Console(width=130).print(table)
    return 0 if all(row.met for row in rows) else 1


async def _all(setting: Setting, only: list[str]) -> list[Row]:
    steps = Console(stderr=True)
    rows: list[Row] = []
    for name in only:
        steps.print(f"measuring {name}")
        rows.extend(await STEPS[name](setting))
    return rows


def _cells(row: Row) -> tuple[str, ...]:
    floor = "" if row.floor is None else f"{row.floor:,.2f} ({row.floor_name})"
    wanted = f"{row.rule} {row.target:g}" if row.target else "for information"
    verdict = "met" if row.met else "[bold red]missed[/]"
    return (row.what, f"{row.value:,.2f} {row.unit}", floor, f"{row.ratio:.2f}", wanted, verdict)


if __name__ == "__main__":
    sys.exit(main())
