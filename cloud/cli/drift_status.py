"""`hybridge drift status`: distances from the reference, scope by scope."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.drift_arguments import Device, Group, Model, scope_of
from cloud.cli.fleet_session import Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, grid, moment, show

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.monitoring.drift.documents import DriftState


def status(
    *,
    group: Group = None,
    device: Device = None,
    model: Model = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Scopes at most.")] = 200,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show how far the newest samples are from the model's reference, and the alarms that are on.
    Named one group or device: each of its features.

    Exit codes: 0 no alarm is on, 1 one is, or refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    from cloud.cli.registry_session import Code

    kind, name = scope_of(group, device)
    found = ask(
        fleet, key_file, lambda asked: asked.drift.state(kind, name, model, limit), group=group,
        device=device,
    )  # fmt: skip
    show(found, output, lambda out: _draw(out, found, is_one=name is not None))
    if found.alarms:
        raise typer.Exit(Code.REFUSED)


def _draw(out: "Console", found: "DriftState", *, is_one: bool) -> None:
    from cloud.cli.drift_words import accuracy_text, alarm_line, how_far, scope_text, worst_text
    from cloud.cli.rollout_words import percent

    def share(value: float) -> str:
        return percent(round(value, 4))

    rows = (
        (
            scope_text(one.scope), f"{one.scope.model} {one.scope.version}", one.samples,
            one.devices, worst_text(one), accuracy_text(one.accuracy), share(one.novel_share),
            share(one.escalated_share), share(one.missing_share), moment(one.updated_at or None),
        )
        for one in found.scopes
    )  # fmt: skip
    columns = (
        "scope", "version", "samples", "devices", "farthest (PSI)", "accuracy", "novel",
        "escalated", "missing", "updated",
    )  # fmt: skip
    grid(out, "Drift", columns, rows)
    if is_one:
        for state in found.scopes:
            features = (
                (one.feature, f"{one.psi:.3f}", how_far(one.psi), f"{one.ks:.3f}", one.p, one.samples)
                for one in state.features
            )  # fmt: skip
            title = f"{scope_text(state.scope)}, {state.scope.model} {state.scope.version}"
            grid(out, title, ("feature", "PSI", "", "KS", "p", "samples"), features)
    for alarm in found.alarms:
        out.print(f"alarm {alarm.id}: {alarm_line(alarm)}", style="bold red", soft_wrap=True)
        out.print(f"  {cell(alarm.runbook)}", soft_wrap=True)
        out.print(f"  {cell(alarm.command)}", soft_wrap=True)
