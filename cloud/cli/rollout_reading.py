"""`hybridge rollout list|status|devices|history`: what became of rollouts."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.fleet_session import Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, grid, moment, show
from cloud.cli.registry_session import Code
from cloud.cli.rollout_arguments import Follow, Id

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.rollouts.documents import RolloutView


def list_rollouts(
    status: Annotated[
        str | None, typer.Option(help="Only those: draft, running, paused, succeeded, ...")
    ] = None,
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List the rollouts, the newest first.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.rollouts.all(status))

    def table(out: "Console") -> None:
        from cloud.cli.rollout_drawing import present, state_text, subject_text

        def row(view: "RolloutView") -> tuple[object, ...]:
            at = present(view)
            return (
                view.id, subject_text(view.spec), view.spec.group, state_text(view),
                sum(view.phases.values()) or None,
                None if at is None else f"{at.done}/{at.devices}",
                moment(view.created_at), view.created_by, view.why,
            )  # fmt: skip

        grid(
            out, "Rollouts",
            ("rollout", "what", "group", "state", "devices", "stage done", "made", "by", "why"),
            map(row, found),
        )  # fmt: skip

    show(found, output, table)


def status(
    name: Id,
    *,
    follow: Follow = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Draw devices by stage and the evidence; with -w, over time."
        ),
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a rollout: each stage as a bar, each criterion's interval against its bound, and why it
    waits. With -w until it is over; without a terminal, a line for each change.

    Exit codes: 0 it has succeeded (or, without -w, it is not over), 1 it was aborted or rolled back,
    or refused, 2 wrong usage, 3 the fleet cannot be reached, 130 detached with Ctrl-C: it goes on.
    """
    from cloud.rollouts.documents import RolloutStatus

    if plot is not None and plot.suffix not in {".svg", ".png", ".pdf"}:
        raise typer.BadParameter(f"--plot {plot.name}: name it .svg, .png or .pdf")
    views: list[tuple[float, RolloutView]] = []
    if follow:
        from cloud.cli.rollout_watching import watch

        found = watch(fleet, key_file, name, output, views)
    else:
        found = ask(fleet, key_file, lambda asked: asked.rollouts.get(name), rollout=name)
        show(found, output, lambda out: _draw(out, found))
    if plot is not None:
        from cloud.cli.rollout_plot import write

        write([*views, (time.time(), found)], plot)
    if found.status in {RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK}:
        raise typer.Exit(Code.REFUSED)


def devices(
    name: Id,
    *,
    phase: Annotated[
        str | None, typer.Option(help="Only those in it, as failed, silent, queued.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="So many at most.")] = 1000,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List a rollout's devices: stage, phase, since when and why, and what each goes back to.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(
        fleet, key_file, lambda asked: asked.rollouts.devices(name, phase, limit), rollout=name
    )
    rows = (
        (one.device, one.stage, one.phase, one.attempt, moment(one.since or None), one.before, one.why)
        for one in found
    )  # fmt: skip
    columns = ("device", "stage", "phase", "attempt", "since", "before", "why")
    show(found, output, lambda out: grid(out, f"Devices of {name}", columns, rows))


def history(
    name: Id, *, fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Show what happened to a rollout: who said what, which stage opened when, what stopped it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.rollouts.history(name), rollout=name)

    def table(out: "Console") -> None:
        from cloud.cli.fleet_log import COLUMNS, row

        grid(out, f"History of {name}", COLUMNS, map(row, found))

    show(found, output, table)


def _draw(out: "Console", view: "RolloutView") -> None:
    from cloud.cli.rollout_drawing import draw, look_for

    out.print(draw(view, time.time(), look_for(out.width, out.encoding)))
