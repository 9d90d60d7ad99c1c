"""`hybridge rollout`: move a fleet's devices to a version, stage by stage, on evidence."""

import typer

from cloud.cli.fleet_session import CODES
from cloud.cli.rollout_changes import abort, approve, pause, resume, retry, skip, undo
from cloud.cli.rollout_reading import devices, history, list_rollouts, status
from cloud.cli.rollout_start import plan, start

rollout = typer.Typer(
    no_args_is_help=True,
    help="Move a fleet's devices to a released version or a device profile in stages, gated by "
    f"evidence; watch, stop and undo it. {CODES}",
)
rollout.command(name="list")(list_rollouts)
for _command in (
    plan, start, status, devices, history, pause, resume, approve, skip, abort, undo, retry,
):  # fmt: skip
    rollout.command()(_command)
