"""`hybridge drift`: do devices still see what the model was made for?"""

import typer

from cloud.cli.drift_alarms import alarms, seen, show_alarm
from cloud.cli.drift_plot import plot
from cloud.cli.drift_status import status
from cloud.cli.fleet_session import CODES

drift = typer.Typer(
    no_args_is_help=True,
    help="How far devices' inputs and answers are from the model's reference, where it comes from, "
    f"what to do. {CODES}",
)
drift.command(name="show")(show_alarm)
for _command in (status, alarms, seen, plot):
    drift.command()(_command)
