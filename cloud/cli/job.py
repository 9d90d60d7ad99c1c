"""`hybridge job list|show|cancel`: look into the asynchronous tier's database, on its own machine."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from cloud.jobs.database import JobDatabase
    from cloud.jobs.record import JobView

job = typer.Typer(no_args_is_help=True, help="List, show and cancel asynchronous jobs.")

StateDir = Annotated[Path, typer.Option("--state-dir", help="The worker's, with jobs.db in it.")]
Url = Annotated[str | None, typer.Option("--url", help="The database's, where it is not jobs.db.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
JobIdText = Annotated[str, typer.Argument(help="A job's id.")]
_HERE = Path("hybridge-cloud")


@job.command("list")
def list_(
    state_dir: StateDir = _HERE,
    url: Url = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs, the newest first.")] = 20,
    *,
    json: AsJson = False,
) -> None:
    """Show how many jobs there are by state, and the newest."""
    from cloud.jobs.results import counts_by_state, page
    from cloud.jobs.routes import described

    with _opened(state_dir, url) as database:
        counts = database.read(counts_by_state)
        views = database.read(lambda c: page(c, None, limit))
    if json:
        by_state = [
            {"status": s, "reason": r, "jobs": n} for (s, r), n in sorted(counts.items(), key=str)
        ]
        jobs = [{"caller": view.caller, **described(view)} for view in views]
        typer.echo(json_format.dumps({"counts": by_state, "jobs": jobs}, indent=2))
        return
    for (state, reason), count in sorted(counts.items(), key=str):
        typer.echo(f"{count:>8,} {state}{f' ({reason})' if reason else ''}")
    for view in views:
        typer.echo(_line(view))


@job.command()
def show(
    id: JobIdText,  # noqa: A002  what it is called everywhere
    state_dir: StateDir = _HERE,
    url: Url = None,
) -> None:
    """Show one job as JSON, without its request and answer."""
    from cloud.jobs.record import job_id
    from cloud.jobs.results import find
    from cloud.jobs.routes import described
    from shared.errors import Unknown

    with _opened(state_dir, url) as database:
        view = database.read(lambda c: find(c, job_id(id)))
    if view is None:
        raise Unknown(
            f"there is no job {id[:60]!r}; `hybridge job list` shows those that there are"
        )
    typer.echo(json_format.dumps({"caller": view.caller, **described(view)}, indent=2))


@job.command()
def cancel(
    id: JobIdText,  # noqa: A002  what it is called everywhere
    state_dir: StateDir = _HERE,
    url: Url = None,
) -> None:
    """Cancel a job; one that has ended is deleted with its answer."""
    import time

    from cloud.jobs.database import Transaction
    from cloud.jobs.record import job_id
    from cloud.jobs.results import remove
    from cloud.jobs.settings import JobSettings
    from shared.errors import Unknown

    def change(transaction: Transaction) -> str | None:
        return remove(transaction, None, job_id(id), JobSettings(), time.time())

    with _opened(state_dir, url) as database:
        (done,) = database.write([change])
    if isinstance(done, Exception):
        raise done
    if done is None:
        raise Unknown(
            f"there is no job {id[:60]!r}; `hybridge job list` shows those that there are"
        )
    typer.echo(f"{id}: {done}")


def _opened(state_dir: Path, url: str | None) -> "AbstractContextManager[JobDatabase]":
    from contextlib import contextmanager

    from cloud.jobs.database import JobDatabase
    from shared.errors import Unknown

    file = state_dir / "jobs.db"
    if url is None and not file.exists():  # SQLite would make it
        raise Unknown(
            f"{file}: there is none; name the worker's --state-dir, or its database's --url"
        )

    @contextmanager
    def opened() -> "Iterator[JobDatabase]":
        database = JobDatabase(url or f"sqlite:///{file}")
        try:
            yield database
        finally:
            database.close()

    return opened()


def _line(view: "JobView") -> str:
    from datetime import UTC, datetime

    created = datetime.fromtimestamp(view.created_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    why = f" ({view.failure.reason})" if view.failure else ""
    return f"{view.id}  {created}  {view.state}{why}  {view.model}  {view.caller}"
