"""`hybridge train compare`: runs side by side, and their curves as a plot."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli.learning_completion import jobs
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, cell, grid, say, show

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Job, Run
    from cloud.training.tracking.comparing import Comparison
    from cloud.training.tracking.plots import Curve

_JOBS_MAX: Final = 20
_BEST: Final = " *"


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="JOB JOB...", help="Their ids.", autocompletion=jobs)
    ],
    *,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this figure; may repeat. Default: all.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the metrics by step; or .png.")
    ] = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show in what runs differ, and their figures side by side; the best is marked with *.

    Exit codes: 0 done, 1 refused (as a metric that none of them has), 2 wrong usage, 3 the learning
    process cannot be reached.
    """
    if len(set(names)) < 2 or len(names) > _JOBS_MAX:
        raise typer.BadParameter(f"name two jobs at least, {_JOBS_MAX} at most, each once")
    if plot is not None and plot.suffix not in {".svg", ".png"}:
        raise typer.BadParameter(f"--plot {plot.name}: name it .svg or .png")
    wanted = list(dict.fromkeys(names))

    async def work(
        asked: "LearningClient",
    ) -> "tuple[list[Job], list[Run], dict[str, dict[str, Curve]]]":
        jobs = [await asked.jobs.get(name) for name in wanted]
        runs = [await asked.jobs.run(name) for name in wanted]
        metrics = _metrics(runs, metric or [])
        return jobs, runs, {} if plot is None else await _curves(asked, wanted, metrics)

    found, runs, curves = ask(learning, key_file, work)
    from cloud.training.tracking.comparing import compare as compared

    result = compared(found, runs, metric or ())
    show(_tree(result), output, lambda out: _draw(out, result))
    if plot is None:
        return
    if not curves:
        say(f"{plot}: not written: these runs have no points of it")
        return
    from cloud.training.tracking.plots import plot as drawn
    from shared.disk import write_whole

    picture = drawn(curves, "png" if plot.suffix == ".png" else "svg")
    write_whole(plot, picture, durable=False)
    say(f"{plot}: {', '.join(curves)} by step")


def _metrics(runs: "list[Run]", asked: list[str]) -> list[str]:
    """Raises `Unknown` for one that no run has."""
    from cloud.cli.suggest import question
    from shared.errors import Unknown

    known = sorted({name for run in runs for name in run.figures})
    for name in asked:
        if name not in known:
            raise Unknown(
                f"--metric {name[:80]!r}: none of these runs has it"
                f"{question(name, known) or '; there is ' + ', '.join(known)}"
            )
    return asked or known


async def _curves(
    asked: "LearningClient", names: list[str], metrics: list[str]
) -> "dict[str, dict[str, Curve]]":
    """Those with two points or more in one run; what was measured once, at the end, is no curve."""
    found: dict[str, dict[str, Curve]] = {}
    for metric in metrics:
        by_job: dict[str, Curve] = {}
        for name in names:
            points = await asked.jobs.points(name, metric)
            if points:
                by_job[name] = [(point.step, point.value) for point in points]
        if any(len(curve) > 1 for curve in by_job.values()):
            found[metric] = by_job
    return found


def _tree(found: "Comparison") -> dict[str, object]:
    return {
        "jobs": list(found.jobs),
        "parameters": {one.name: list(one.values) for one in found.parameters},
        "figures": {
            one.name: {"values": list(one.values), "best": [
                job for job, is_best in zip(found.jobs, one.best, strict=True) if is_best
            ] if one.best else []}
            for one in found.figures
        },
    }  # fmt: skip


def _draw(out: "Console", found: "Comparison") -> None:
    rows = [(one.name, *one.values) for one in found.parameters]
    grid(out, "Parameters that differ", ("parameter", *found.jobs), rows)
    marked = [
        (
            one.name,
            *(
                cell(value) + (_BEST if one.best and one.best[number] else "")
                for number, value in enumerate(one.values)
            ),
        )
        for one in found.figures
    ]
    grid(out, "Figures, the best with *", ("figure", *found.jobs), marked)
