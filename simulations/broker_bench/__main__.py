"""`make bench-broker`: the embedded broker beside Mosquitto; exit code 1 when a target is missed.

Eight to ten minutes with every cell and five rounds. `--only rate --rounds 3` is quicker.
"""

import argparse
import asyncio
import dataclasses
import json
import resource
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from shared.errors import Unavailable
from simulations.broker_bench import rounds
from simulations.broker_bench.cells import Cell, cells
from simulations.broker_bench.report import Row, rows

GROUPS = ("rate", "share", "latency", "durable", "memory", "idle")
NOTES = (
    "A message counts when the subscriber has it. Windows of 20; clients in a process of their own.",
    "Memory: the same messages wait in both; where only 64 MiB may, Mosquitto has no such bound.",
    (
        "Durable: the embedded broker has a message on disk before it acknowledges it; Mosquitto's "
        "default writes its sessions when it ends, so a kill loses them."
    ),
)


def main() -> int:
    """Measure, print the table, and say whether every target is met."""
    parser = argparse.ArgumentParser(prog="python -m simulations.broker_bench", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--match", default="", help="only cells whose name holds this")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of each cell")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured in a run")
    parser.add_argument("--json", type=Path, help="write every run's figures there")
    parser.add_argument("--plot", type=Path, help="draw the ratios there (png, svg, pdf)")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # brokers inherit it
    wanted = [
        cell for cell in cells(arguments.seconds)
        if cell.group in arguments.only and arguments.match in cell.what
    ]  # fmt: skip
    measured = asyncio.run(_all(wanted, arguments.rounds))
    is_whole = len(measured) == len(wanted)
    found = [row for cell, pairs in measured for row in rows(cell, pairs)]
    _print(found)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([_record(*one) for one in measured], indent=1))
    if arguments.plot is not None:
        from simulations.broker_bench.plot import draw  # noqa: PLC0415  slow to import

        draw(found, arguments.plot)
    return 0 if is_whole and all(row.met for row in found) else 1


async def _all(wanted: list[Cell], count: int) -> list[tuple[Cell, list[rounds.Pair]]]:
    steps = Console(stderr=True)
    measured: list[tuple[Cell, list[rounds.Pair]]] = []
    for cell in wanted:
        steps.print(f"measuring {cell.what}")
        try:
            measured.append((cell, await rounds.measure(cell, count)))
        except (RuntimeError, Unavailable) as error:  # the other cells are worth having
            steps.print(f"[bold red]failed[/]: {error}")
    return measured


def _record(cell: Cell, pairs: list[rounds.Pair]) -> dict[str, object]:
    runs = [
        {kind: dataclasses.asdict(one) for kind, one in zip(rounds.KINDS, pair, strict=True)}
        for pair in pairs
    ]
    return {"what": cell.what, "load": dataclasses.asdict(cell.load), "rounds": runs}


def _print(found: list[Row]) -> None:
    console = Console(width=150)
    table = Table(title="Medians of interleaved runs on this machine, now", title_justify="left")
    for heading in ("what", "embedded", "mosquitto", "ratio", "target", "", "did not arrive"):
        table.add_column(heading, justify="left" if heading in ("what", "", "did not arrive") else "right")  # fmt: skip
    for row in found:
        target = f"{row.rule} {row.target:g}" if row.rule else "for information"
        verdict = "" if row.rule is None and row.met else "met" if row.met else "[bold red]missed[/]"  # fmt: skip
        values = (f"{value:,.{_digits(value)}f} {row.unit}" for value in (row.embedded, row.mosquitto))  # fmt: skip
        table.add_row(row.what, *values, f"{row.ratio:.3f}", target, verdict, row.note)
    console.print(table)
    for note in NOTES:
        console.print(note)


def _digits(value: float) -> int:
    return 0 if value >= 1_000 else 1 if value >= 10 else 3


if __name__ == "__main__":
    sys.exit(main())
