"""`hybridge device`: the fleet's devices."""

import typer

from cloud.cli.device_changes import label, quarantine, release, remove, revoke
from cloud.cli.device_enrol import enrol, token
from cloud.cli.device_reading import events, get, list_devices, logs
from cloud.cli.fleet_session import CODES

device = typer.Typer(
    no_args_is_help=True,
    help=f"Enrol, look at, label, quarantine and revoke the fleet's devices. {CODES}",
)
device.command(name="list")(list_devices)
for _command in (get, enrol, label, logs, events, quarantine, release, revoke, remove):
    device.command()(_command)
device.add_typer(token, name="token")
