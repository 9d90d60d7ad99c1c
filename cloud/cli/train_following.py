"""Following a job: its log as it comes, a bar where a person sees it, its end."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from cloud.cli.learning_session import ask
from cloud.cli.output import Format, cell, console, moment, say
from cloud.cli.registry_session import Code

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Job, LogLine

_PAGE: Final = 500
_WAIT_S: Final = 2.0  # of one long poll: a job's end is seen after so long
_AT_MOST_EVERY_S: Final = 0.5  # a process that answers at once is not asked without end
_PATIENCE_S: Final = 15 * 60.0
"""A process that is away is asked again for so long: its restart ends no watch."""


def follow_to_end(
    learning: list[str] | None, key_file: Path | None, job: str, output: Format, after: int = 0
) -> None:
    """Print lines until it is over; then how it ended, as the exit code says, too."""
    from cloud.cli.train_words import summary
    from cloud.training.documents import JobState

    try:
        with _bar(job, output) as seen:
            ended = ask(
                learning, key_file, lambda asked: _until_over(asked, job, output, after, seen),
                stopped=None, job=job,
            )  # fmt: skip
    except typer.Exit as left:
        if left.exit_code == Code.STOPPED:
            say(f"detached: the job goes on; come back: hybridge train logs {job} -f")
        raise
    say(summary(ended))
    if ended.state is not JobState.DONE:
        raise typer.Exit(Code.REFUSED)


async def _until_over(
    learning: "LearningClient",
    job: str,
    output: Format,
    after: int,
    seen: "Callable[[Job], None]",
) -> "Job":
    from cloud.cli.train_words import is_over
    from shared.errors import Unavailable

    loop = asyncio.get_running_loop()
    answered, is_lost = loop.time(), False
    while True:
        began = loop.time()
        try:
            found = await learning.jobs.get(
                job
            )  # before its lines: those of its end are not missed
            seen(found)
            lines = await learning.jobs.logs(job, after, _PAGE, 0.0 if is_over(found) else _WAIT_S)
        except Unavailable as error:
            if loop.time() - answered > _PATIENCE_S:
                raise
            if not is_lost:
                say(f"{error}; asking again")
            is_lost = True
        else:
            if is_lost:
                say("the learning process answers again")
            answered, is_lost = loop.time(), False
            fresh = [line for line in lines if line.seq > after]
            for line in fresh:
                print_line(line, output)
                after = line.seq
            if is_over(found) and not fresh:
                return found
            if fresh:
                continue
        if (early := began + _AT_MOST_EVERY_S - loop.time()) > 0:
            await asyncio.sleep(early)


def print_line(line: "LogLine", output: Format) -> None:
    """As text, or one document a line."""
    match output:
        case Format.JSON:
            typer.echo(line.model_dump_json())
        case Format.YAML:
            import yaml

            typer.echo("---")
            typer.echo(yaml.safe_dump(line.model_dump(mode="json"), sort_keys=False), nl=False)
        case Format.TABLE:
            console().print(f"{moment(line.at)}  {cell(line.text)}", soft_wrap=True)


@contextlib.contextmanager
def _bar(job: str, output: Format) -> "Iterator[Callable[[Job], None]]":
    """On stderr, where a person looks; gives what is told each time that the job was seen."""
    import sys

    if output is not Format.TABLE or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from cloud.cli.train_words import state_text

    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True, markup=False), transient=True,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(), redirect_stderr=False,
    ) as bar:  # fmt: skip
        task = bar.add_task(job, total=1.0)
        yield lambda found: bar.update(
            task, completed=found.progress, description=f"{job} {state_text(found)}"
        )
