"""`hybridge demo`: the main job, judged; `hybridge demo drift`: a fleet that learns (`demo_drift.py`)."""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.demo_drift import drift
from shared.errors import Malformed

if TYPE_CHECKING:
    from cloud.demo.verdict import Row, Verdict


demo = typer.Typer(invoke_without_command=True)
demo.command(name="drift")(drift)


@demo.callback()
def three_ways(
    context: typer.Context,
    models: Annotated[Path, typer.Option(help="Folder with both bundles and the images.")] = Path(
        "models"
    ),
    chart: Annotated[Path, typer.Option(help="Where to write the PNG.")] = Path("demo.png"),
    rate: Annotated[float, typer.Option(help="Images a second, over all agents.", min=1)] = 150.0,
    count: Annotated[int, typer.Option(help="How many of the images.", min=30)] = 2_000,
    broker: Annotated[
        Literal["embedded", "mosquitto"], typer.Option(help="mosquitto: the one on PATH.")
    ] = "embedded",
    keep: Annotated[
        Path | None, typer.Option(help="Keep configurations, logs and state here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Broker, cloud worker and three agents on real images; one table; exit code 0 if worth it.

    `hybridge demo drift` shows a fleet that learns from what it sees.
    """
    if context.invoked_subcommand is not None:
        return
    from cloud.demo import chart as charts
    from cloud.demo.run import Images, Plan, load_images, run

    if not chart.absolute().parent.is_dir():
        raise Malformed(f"--chart {chart}: {chart.absolute().parent} is no folder; make it first")
    data = load_images(models / "fashion-mnist-test-2000.npz")
    data = Images(data.images[:count], data.labels[:count])
    with tempfile.TemporaryDirectory(prefix="hybridge-demo-") as temporary:
        folder = Path(temporary) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(models, folder, rate, broker)
        try:
            verdict = asyncio.run(_with_progress(run, plan, data))
        except (KeyboardInterrupt, asyncio.CancelledError):
            sys.stderr.write("interrupted; everything that the demo had started is ended\n")
            raise typer.Exit(130) from None
    charts.draw(verdict, chart)
    _print(verdict, chart, as_json=as_json)
    raise typer.Exit(1 if verdict.failures else 0)


async def _with_progress(run: Callable[..., object], plan: object, data: object) -> "Verdict":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def progress(title: str) -> Callable[[], None]:
            task = bar.add_task(title, total=len(data.labels))  # type: ignore[attr-defined]
            return lambda: bar.advance(task)

        return await run(plan, data, bar.console.print, progress)  # type: ignore[misc,no-any-return]


def _print(verdict: "Verdict", chart: Path, *, as_json: bool) -> None:
    rows = (verdict.edge, verdict.cloud, verdict.hybrid)
    if as_json:
        print(json.dumps({
            "rows": [asdict(row) for row in rows], "lost": verdict.lost,
            "unanswered": verdict.unanswered, "failures": verdict.failures, "chart": str(chart),
        }, indent=1))  # fmt: skip
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The same images, answered three ways", title_justify="left")
    for heading in (
        "",
        "accuracy",
        "escalated",
        "bytes up / sample",
        "first answer p50 / p99 ms",
        "final answer p50 / p99 ms",
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    for row in rows:
        table.add_row(*_cells(row))
    console = Console()
    console.print(table)
    saved = verdict.cloud.bytes_per_sample / max(verdict.hybrid.bytes_per_sample, 1e-9)
    console.print(
        f"The hybrid sends {saved:.0f} times less than asking the cloud always, losslessly. "
        f"Lost: {sum(verdict.lost.values())}. Without a final answer: {verdict.unanswered}. Chart: {chart}"
    )
    for failure in verdict.failures:
        console.print(f"[bold red]not worth it:[/] {failure}")


def _cells(row: "Row") -> tuple[str, ...]:
    return (
        row.name, f"{row.accuracy:.2%}", f"{row.escalated:.1%}", f"{row.bytes_per_sample:.0f}",
        f"{row.first_p50_ms:.1f} / {row.first_p99_ms:.1f}",
        f"{row.final_p50_ms:.1f} / {row.final_p99_ms:.1f}",
    )  # fmt: skip
