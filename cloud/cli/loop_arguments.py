"""What `hybridge loop` commands take."""

from typing import Annotated

import typer

from cloud.cli.learning_completion import loops

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="The edge model.", autocompletion=loops)
]
Comment = Annotated[
    str, typer.Option("--comment", "-m", help="Why; stays with the cycle.", show_default=False)
]
Follow = Annotated[
    bool, typer.Option("--follow", "-w", help="Watch the cycle until it is over; Ctrl-C detaches.")
]
