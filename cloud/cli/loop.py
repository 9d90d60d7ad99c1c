"""`hybridge loop`: hard samples become the next small model, by itself, and a person can stop it."""

import typer

from cloud.cli.learning_session import CODES
from cloud.cli.loop_changes import begin, delete, go, set_loop, stop
from cloud.cli.loop_checks import check, checks
from cloud.cli.loop_reading import cycles, history, list_loops, show_loop, status
from cloud.cli.loop_refit import refit
from cloud.cli.loop_watching import watch

loop = typer.Typer(
    no_args_is_help=True,
    help="A model's loop: what triggers it, where its cycle stands, what it waits for; say go or "
    f"stop. {CODES}",
)
loop.command(name="list")(list_loops)
loop.command(name="show")(show_loop)
loop.command(name="set")(set_loop)
for _command in (status, begin, go, stop, cycles, history, watch, refit, check, checks, delete):
    loop.command()(_command)
