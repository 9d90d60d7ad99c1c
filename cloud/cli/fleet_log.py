"""`hybridge fleet events`, `hybridge device events`: the fleet's log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.fleet_completion import devices, rollouts
from cloud.cli.fleet_session import Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, console, moment

if TYPE_CHECKING:
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.documents import FleetEvent

_PAGE = 500
_WAIT_S = 10.0
COLUMNS = ("event", "at", "by", "what", "device", "rollout", "words")

After = Annotated[int, typer.Option(min=0, help="Only events after this one.")]
Limit = Annotated[
    int | None, typer.Option(min=1, help="So many events at most. Default: all that are kept.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new ones as they come.")]


def events(
    *,
    after: After = 0,
    limit: Limit = None,
    follow: Follow = False,
    device: Annotated[
        str | None, typer.Option(help="Only of this device.", autocompletion=devices)
    ] = None,
    rollout: Annotated[
        str | None, typer.Option(help="Only of this rollout.", autocompletion=rollouts)
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the fleet's log, the oldest first. With -o json, one event a line.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 130 stopped.
    """
    print_events(
        fleet, key_file, output, after=after, limit=limit, follow=follow, device=device,
        rollout=rollout,
    )  # fmt: skip


def print_events(
    fleet: list[str] | None, key_file: Path | None, output: Format, *, after: int,
    limit: int | None, follow: bool, device: str | None = None, rollout: str | None = None,
) -> None:  # fmt: skip
    """Page by page, as they come."""

    async def work(asked: "FleetClient") -> None:
        at, printed = after, 0
        while limit is None or printed < limit:
            page = await asked.events(
                at, _PAGE if limit is None else min(_PAGE, limit - printed),
                _WAIT_S if follow else 0.0, device=device, rollout=rollout,
            )  # fmt: skip
            for event in page:
                if event.seq > at:
                    at, printed = event.seq, printed + 1
                    _print(event, output)
            if not page and not follow:
                return

    ask(fleet, key_file, work, device=device, rollout=rollout)


def row(event: "FleetEvent") -> tuple[object, ...]:
    """Of a table with `COLUMNS`."""
    return (
        event.seq, moment(event.at), event.actor, event.kind, event.device, event.rollout,
        event.words,
    )  # fmt: skip


def _print(event: "FleetEvent", output: Format) -> None:
    match output:
        case Format.JSON:
            typer.echo(event.model_dump_json())
        case Format.YAML:
            import yaml

            typer.echo("---")
            typer.echo(yaml.safe_dump(event.model_dump(mode="json"), sort_keys=False), nl=False)
        case Format.TABLE:
            said = [cell(one) for one in row(event) if one is not None]
            console().print("  ".join(said), soft_wrap=True)
