"""`hybridge train logs`: what a job says."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output
from cloud.cli.train_arguments import JobName

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient

_PAGE = 500


def logs(
    name: JobName,
    *,
    after: Annotated[int, typer.Option(min=0, help="Only lines after this one.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until it is over.")
    ] = False,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a job's log, the oldest line first. With -o json, one line of the log a line.

    Exit codes: 0 done (with -f: the job is done), 1 refused, or (with -f) it failed or was
    cancelled, 2 wrong usage, 3 the learning process cannot be reached, 130 detached with Ctrl-C.
    """
    from cloud.cli.train_following import follow_to_end, print_line

    if follow:
        follow_to_end(learning, key_file, name, output, after)
        return

    async def work(asked: "LearningClient") -> None:
        at = after
        while page := [line for line in await asked.jobs.logs(name, at, _PAGE) if line.seq > at]:
            for line in page:
                print_line(line, output)
            at = page[-1].seq

    ask(learning, key_file, work, job=name)
