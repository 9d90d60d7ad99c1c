"""`hybridge batch run|status`: answer a folder or an object store's prefix with a bundle, offline."""

import asyncio
import json as json_format
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.api_key import KeyFile, read_key

if TYPE_CHECKING:
    from cloud.batch.offline import Ended, Order
    from cloud.batch.progress import Progress

batch = typer.Typer(no_args_is_help=True, help="Answer many images with a bundle, offline.")

_OUTSIDE_HOURS, _STOPPED = 3, 4
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines on stdout instead of a bar.")]


@batch.command()
def run(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="A folder, a file, file:///... or s3://bucket/prefix."),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The answers' folder; made if needed.")
    ],
    *,
    bundle: Annotated[Path, typer.Option(help="The bundle's folder or .hyb file.")],
    engine: Annotated[str | None, typer.Option(help="Insist on this engine or variant.")] = None,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Of the engine.")] = 1,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Rows. Default: what takes 10 ms here.")
    ] = None,
    part_rows: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Rows in each file of answers.")
    ] = 4096,
    layout: Annotated[Literal["jsonl", "npz"], typer.Option("--format")] = "jsonl",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="All of them, for each row.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Rows in this run; the next one goes on.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad input.")] = False,
    window: Annotated[
        str | None, typer.Option(help="Only within these hours, such as 22:00-06:00.")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Of the window, such as Europe/Berlin. Default: this machine's."),
    ] = None,
    wait: Annotated[
        bool, typer.Option(help="Outside of the window: wait, or end with code 3.")
    ] = True,
    online: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Give way to this online tier's load; its key needs the role observe.",
        ),
    ] = None,
    key_file: KeyFile = None,
    p99_ms: Annotated[
        float | None, typer.Option(min=0.1, help="Online p99 above which the batch stops.")
    ] = None,
    queue_depth: Annotated[
        int, typer.Option(min=0, help="Online requests that may wait before the batch stops.")
    ] = 16,
    share_max: Annotated[
        float, typer.Option(min=0.02, max=1, help="Of time, beside an idle online tier.")
    ] = 1.0,
    give_way: Annotated[
        bool, typer.Option(help="To all else on this machine; not, if the machine is the batch's.")
    ] = True,
    json: AsJson = False,
) -> None:
    """Answer every image in IN, once, and say so in OUT; run it again after a stop to go on.

    Exit codes: 0 done, 1 refused or some inputs were bad (OUT/errors.jsonl), 2 wrong usage,
    3 outside of its hours, 4 stopped before the end.
    """
    from cloud.batch.idle_priority import to_idle
    from cloud.batch.own_session import own_session

    starter = own_session() if give_way else None  # both before libraries start threads
    gave = to_idle() if give_way else "as started"
    from cloud.batch.gate import OutsideHours
    from cloud.batch.governor import Rules
    from cloud.batch.hours import parse_hours, zone_named
    from cloud.batch.local_zone import local_zone
    from cloud.batch.offline import Order
    from shared.logs import set_up

    set_up("warning")
    if time_zone is not None and window is None:
        raise typer.BadParameter("--time-zone is the window's: give --window too")
    zone = zone_named(time_zone) if time_zone else local_zone()
    order = Order(
        source=source, out=out, bundle=bundle, engine=engine, threads=threads,
        batch_rows=batch_size, part_rows=part_rows, layout=layout, probabilities=probabilities,
        rows_max=limit, strict=strict, waits=wait,
        hours=None if window is None else parse_hours(window, zone),
        online=online, api_key=read_key(key_file),
        rules=Rules(share_max=share_max, depth_max=queue_depth, p99_ms_max=p99_ms),
    )  # fmt: skip
    try:
        ended = _with_lines(order, starter, gave) if json else _with_bar(order, starter)
    except OutsideHours as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(_OUTSIDE_HOURS) from None
    if json:
        _print({"event": "ended", **asdict(ended), "out": str(out)})
    else:
        typer.echo(_summary(ended, out))
    if ended.how == "stopped":
        raise typer.Exit(_STOPPED)
    if ended.totals.failed:
        raise typer.Exit(1)


@batch.command()
def status(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="A batch's folder, also while it runs.")
    ],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show how far a batch has come, and what it is a batch of."""
    from cloud.batch.answer_folder import SUCCESS
    from cloud.batch.journal import Journal, exists
    from shared.errors import Unknown

    if not exists(out):
        raise Unknown(f"{out}: no batch was begun here")
    with Journal(out, read_only=True) as journal:
        job, totals = journal.job(), journal.totals()
    complete = (out / SUCCESS).exists()
    if json:
        about = None if job is None else job.model_dump()
        _print({"job": about, **asdict(totals), "complete": complete})
        return
    if job is not None:
        typer.echo(f"{job.source}: {job.model} {job.version or ''} ({job.variant or 'online'})")
    state = "complete" if complete else "not complete; run it again to go on"
    typer.echo(
        f"{totals.rows:,} rows of {totals.inputs:,} inputs in {totals.parts:,} parts, "
        f"{totals.failed:,} inputs failed: {state}"
    )


def _with_lines(order: "Order", starter: int | None, gave: str) -> "Ended":
    return _run(
        order, starter, lambda now: _print({"event": "progress", **asdict(now)}),
        begun=lambda: _print({"event": "begun", "priority": gave}),
    )  # fmt: skip


def _with_bar(order: "Order", starter: int | None) -> "Ended":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, markup=False, highlight=False)
    with Bar(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False), TimeElapsedColumn(),
        console=console, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("starting", total=None, rate="")

        def show(now: "Progress") -> None:
            left = "" if now.eta_s is None else f", {_duration(now.eta_s)} left"
            failed = f", {now.failed:,} failed" if now.failed else ""
            bar.update(
                task, description=now.state, total=now.rows_expected, completed=now.rows,
                rate=f"{now.rows_per_s:,.0f} rows/s at {now.share:.0%}{failed}{left}",
            )  # fmt: skip

        return _run(order, starter, show)


def _run(
    order: "Order",
    starter: int | None,
    report: "Callable[[Progress], None]",
    begun: Callable[[], None] = lambda: None,
) -> "Ended":
    """`starter` is at its end once whoever started this is gone: then it stops, too.

    `begun` is called once signals no longer kill but stop.
    """
    from cloud.batch.offline import run as run_offline

    async def until_stopped() -> "Ended":
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if starter is not None:
            loop.add_reader(starter, stop.set)
        begun()
        return await run_offline(order, report, stop)

    return asyncio.run(until_stopped())


def _summary(ended: "Ended", out: Path) -> str:
    totals = ended.totals
    rate = f" ({ended.rows / ended.seconds:,.0f} a second)" if ended.rows else ""
    failed = (
        f"; {totals.failed:,} inputs failed, see {out / 'errors.jsonl'}" if totals.failed else ""
    )
    how = {
        "complete": "Complete", "limited": "Limit reached; the next run goes on",
        "stopped": "Stopped; run it again to go on",
    }[ended.how]  # fmt: skip
    return f"{how}: {ended.rows:,} rows in this run{rate}, {totals.rows:,} in {out}{failed}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _print(line: dict[str, object]) -> None:
    sys.stdout.write(json_format.dumps(line) + "\n")
    sys.stdout.flush()
