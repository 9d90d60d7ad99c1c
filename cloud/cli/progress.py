"""A bar on stderr: bytes, rate and time left. Silent unless a person sees it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cloud.cli.output import Format


@contextmanager
def byte_bar(what: str, total: int, form: Format) -> Iterator[Callable[[int], None]]:
    """Gives what is to be told each time that bytes have moved (negative: moved back)."""
    if form is not Format.TABLE or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True, markup=False), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=total)
        yield lambda moved: bar.advance(task, moved)
