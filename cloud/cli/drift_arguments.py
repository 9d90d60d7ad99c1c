"""Whose drift `hybridge drift` commands look at."""

from typing import Annotated

import typer

from cloud.cli.completion import models
from cloud.cli.fleet_completion import alarms, devices, groups

AlarmName = Annotated[str, typer.Argument(metavar="ALARM", help="Its id.", autocompletion=alarms)]
Group = Annotated[
    str | None, typer.Option("--group", "-g", help="Only this group.", autocompletion=groups)
]
Device = Annotated[str | None, typer.Option(help="Only this device.", autocompletion=devices)]
Model = Annotated[str | None, typer.Option(help="Only of this model.", autocompletion=models)]


def scope_of(group: str | None, device: str | None) -> tuple[str | None, str | None]:
    """Kind and name of what is asked for; None: all."""
    if group is not None and device is not None:
        raise typer.BadParameter("--group and --device: one at a time")
    if group is not None:
        return "group", group
    return (None, None) if device is None else ("device", device)
