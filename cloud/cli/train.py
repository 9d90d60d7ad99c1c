"""`hybridge train`: hand in training jobs, watch them, compare what they made."""

import typer

from cloud.cli.learning_session import CODES
from cloud.cli.train_changes import cancel, priority
from cloud.cli.train_compare import compare
from cloud.cli.train_logs import logs
from cloud.cli.train_quota import quota
from cloud.cli.train_reading import get, list_jobs, show_job, workers
from cloud.cli.train_submit import submit

train = typer.Typer(
    no_args_is_help=True,
    help="Hand in training jobs, follow them, compare their runs, and share out the workers. "
    f"{CODES}",
)
train.command(name="list")(list_jobs)
train.command(name="show")(show_job)
for _command in (submit, logs, cancel, priority, compare, get, workers):
    train.command()(_command)
train.add_typer(quota, name="quota")
