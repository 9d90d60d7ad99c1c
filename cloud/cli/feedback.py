"""`hybridge feedback`: what devices sent back, what people say it shows, and data sets of it."""

import typer

from cloud.cli.feedback_changes import delete, label, unlabel
from cloud.cli.feedback_data_set import data_set
from cloud.cli.feedback_image import image
from cloud.cli.feedback_reading import list_samples, show_sample, status
from cloud.cli.feedback_review import review
from cloud.cli.learning_session import CODES

feedback = typer.Typer(
    no_args_is_help=True,
    help="Look at samples that devices sent back, correct their labels, make data sets of them. "
    f"{CODES}",
)
feedback.command(name="list")(list_samples)
feedback.command(name="show")(show_sample)
for _command in (status, image, label, unlabel, review, delete):
    feedback.command()(_command)
feedback.add_typer(data_set, name="data-set")
