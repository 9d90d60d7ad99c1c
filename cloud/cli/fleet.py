"""`hybridge fleet`: a region's control plane: set it up, see how it is, read its log."""

from typing import TYPE_CHECKING

import typer

from cloud.cli.fleet_init import init, renew
from cloud.cli.fleet_log import events
from cloud.cli.fleet_session import CODES, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, facts, grid, show

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.client.pages import FleetState
    from cloud.rollouts.documents import RolloutView

fleet = typer.Typer(
    no_args_is_help=True, help=f"A region's fleet: set it up, see how it is, read its log. {CODES}"
)
for _command in (init, renew, events):
    fleet.command()(_command)


@fleet.command()
def status(*, fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE) -> None:
    """Say how many devices there are, how many are online, and which rollouts run.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """

    async def work(asked: "FleetClient") -> "tuple[FleetState, list[RolloutView]]":
        state = await asked.state()
        running = [*await asked.rollouts.all("running"), *await asked.rollouts.all("paused")]
        return state, running

    state, running = ask(fleet, key_file, work)

    def table(out: "Console") -> None:
        from cloud.cli.rollout_drawing import summary

        facts(out, state.name, _facts(state))
        grid(out, "Rollouts under way", ("rollout",), [(summary(one),) for one in running])

    ids = [one.id for one in running]
    show(state.model_dump(mode="json") | {"under_way": ids}, output, table)


def _facts(state: "FleetState") -> tuple[tuple[str, object], ...]:
    broker = None if state.broker is None else "connected" if state.broker else "NOT connected"
    return (
        ("devices", state.devices), ("online", state.online), ("rollouts", state.rollouts),
        ("broker", broker), ("desired state on its way", state.unpublished),
        ("last event", state.head),
    )  # fmt: skip
