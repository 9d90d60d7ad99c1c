"""`hybridge train cancel|priority`: a person's word on a job."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, cell, show
from cloud.cli.registry_session import DryRun
from cloud.cli.train_arguments import ActiveJob, Comment

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Job


def cancel(
    name: ActiveJob, *, comment: Comment, learning: Learning = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Stop a job for good. A running one writes a checkpoint first; what it logged stays.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached, 4 it is
    over already.
    """

    async def work(asked: "LearningClient") -> "Job":
        return await (asked.jobs.get(name) if dry_run else asked.jobs.cancel(name, comment))

    _show(ask(learning, key_file, work, job=name), "cancel", output, dry_run=dry_run)


def priority(
    name: ActiveJob,
    number: Annotated[int, typer.Argument(metavar="0..9", min=0, max=9, help="9 goes first.")],
    *,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Let a job go earlier, or later. A higher one may take a running job's place.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached, 4 it is
    over already.
    """

    async def work(asked: "LearningClient") -> "Job":
        return await (asked.jobs.get(name) if dry_run else asked.jobs.prioritise(name, number))

    what = f"set the priority to {number} of"
    _show(ask(learning, key_file, work, job=name), what, output, dry_run=dry_run)


def _show(job: "Job", verb: str, output: Format, *, dry_run: bool) -> None:
    from cloud.cli.train_words import state_text, summary

    if dry_run:
        tree = {
            "dry_run": True,
            "would": verb.split(maxsplit=1)[0],
            "job": job.id,
            "state": str(job.state),
        }
        line = cell(f"would {verb} {job.id}, which is {state_text(job)}")
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    show(job, output, lambda out: out.print(summary(job), soft_wrap=True))
