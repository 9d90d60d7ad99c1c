"""`hybridge drift alarms|show|seen`: what is wrong, what to do, who looks after it."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.drift_arguments import AlarmName
from cloud.cli.fleet_session import Comment, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, facts, grid, moment, show
from cloud.cli.registry_session import DryRun

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.fleet.client.client import FleetClient
    from cloud.monitoring.drift.documents import Alarm


def alarms(
    *,
    every: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 100,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the alarms that are on: what is wrong, what to do, and a command that does it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(
        fleet, key_file, lambda asked: asked.drift.alarms(on=None if every else True, at_most=limit)
    )
    show(found, output, lambda out: _list(out, found))


def show_alarm(
    name: AlarmName, *, fleet: Fleet = None, key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show an alarm: evidence by feature, devices, cause, runbook.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.drift.alarm(name))
    show(found, output, lambda out: _draw(out, found))


def seen(
    name: AlarmName, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Say that you look after an alarm. It stays on until what it is about is over.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is over already.
    """

    async def work(asked: "FleetClient") -> "Alarm":
        return await (asked.drift.alarm(name) if dry_run else asked.drift.seen(name, comment))

    found = ask(fleet, key_file, work)
    if dry_run:
        tree = {"dry_run": True, "would": "acknowledge", "alarm": found.id}
        show(tree, output, lambda out: out.print(f"would acknowledge {found.id}"))
        return
    show(found, output, lambda out: out.print(f"{found.id}: seen by {cell(found.seen_by)}"))


def _list(out: "Console", found: "list[Alarm]") -> None:
    from cloud.cli.drift_words import alarm_line, devices_text

    if not found:
        out.print("No alarm is on.")
    for one in found:
        over = f", over {moment(one.closed_at)}" if one.closed_at is not None else ""
        by = f", seen by {one.seen_by}" if one.seen_by else ""
        head = f"{one.id}: {one.kind}, cause {one.cause}, since {moment(one.opened_at)}{over}{by}"
        out.print(cell(head), style="dim" if over else "bold red", soft_wrap=True)
        out.print(f"  {alarm_line(one)}", soft_wrap=True)
        if one.devices:
            out.print(f"  devices: {cell(devices_text(one))}", soft_wrap=True)
        out.print(f"  {cell(one.runbook)}", soft_wrap=True)
        out.print(f"  $ {cell(one.command)}", soft_wrap=True)


def _draw(out: "Console", alarm: "Alarm") -> None:
    from cloud.cli.drift_words import accuracy_text, devices_text, how_far, scope_text

    scope = alarm.scope
    facts(
        out, alarm.id,
        [
            ("about", f"{alarm.kind} of {scope_text(scope)}, {scope.model} {scope.version}"),
            ("what", alarm.words), ("cause", alarm.cause), ("devices", devices_text(alarm) or None),
            ("samples that it took", alarm.samples),
            ("accuracy", accuracy_text(alarm.accuracy) or None),
            ("opened", moment(alarm.opened_at)), ("over", moment(alarm.closed_at) or None),
            ("seen by", alarm.seen_by or None), ("what to do", alarm.runbook),
            ("command", alarm.command),
        ],
    )  # fmt: skip
    rows = (
        (one.feature, f"{one.psi:.3f}", how_far(one.psi), f"{one.ks:.3f}", one.p, one.samples)
        for one in alarm.features
    )
    grid(out, "Features", ("feature", "PSI", "", "KS", "p", "samples"), rows)
