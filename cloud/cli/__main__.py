"""The `hybridge` command. Exit codes: 0 done, 1 refused or unhealthy, 2 wrong usage; a command that
has more says so in its help.
"""

import sys

import typer

from cloud.cli.apply import apply
from cloud.cli.batch import batch
from cloud.cli.broker import broker
from cloud.cli.budget import budget
from cloud.cli.capacity import capacity
from cloud.cli.data_set import data_set
from cloud.cli.demo import demo
from cloud.cli.device import device
from cloud.cli.doctor import doctor
from cloud.cli.drift import drift
from cloud.cli.experiment import experiment
from cloud.cli.feedback import feedback
from cloud.cli.fleet import fleet
from cloud.cli.group import group
from cloud.cli.job import job
from cloud.cli.key import key
from cloud.cli.loop import loop
from cloud.cli.model import model
from cloud.cli.profile import profile
from cloud.cli.registry import registry
from cloud.cli.rollout import rollout
from cloud.cli.simulate import simulate
from cloud.cli.train import train
from shared.errors import HybridgeError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # else a paragraph keeps the line ends of its docstring
    help="Edge-cloud hybrid inference. Exit codes: 0 done, 1 refused or unhealthy, 2 wrong usage.",
)
app.command()(apply)
app.command()(doctor)
app.add_typer(batch, name="batch")
app.add_typer(broker, name="broker")
app.add_typer(budget, name="budget")
app.add_typer(capacity, name="capacity")
app.add_typer(data_set, name="data-set")
app.add_typer(experiment, name="experiment")
app.add_typer(demo, name="demo")
app.add_typer(device, name="device")
app.add_typer(drift, name="drift")
app.add_typer(feedback, name="feedback")
app.add_typer(fleet, name="fleet")
app.add_typer(group, name="group")
app.add_typer(job, name="job")
app.add_typer(key, name="key")
app.add_typer(loop, name="loop")
app.add_typer(model, name="model")
app.add_typer(profile, name="profile")
app.add_typer(registry, name="registry")
app.add_typer(rollout, name="rollout")
app.add_typer(simulate, name="simulate")
app.add_typer(train, name="train")


def main() -> None:
    """Run one command; what it refuses is one line on stderr."""
    try:
        app()
    except HybridgeError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        sys.stderr.write(f"error: {where}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
