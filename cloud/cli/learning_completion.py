"""Names for shell completion, from the learning process that the line names: quickly, or none and no
word.
"""

from typing import Final
from urllib.parse import quote

import typer

from cloud.cli.completion import Place, members, starting

LEARNING: Final = Place("learning", "HYBRIDGE_LEARNING", "HYBRIDGE_LEARNING_KEY")


def jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The newest first."""
    return _named(ctx, incomplete, "/v1/jobs?limit=200", "jobs", "id")


def active_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    return _named(ctx, incomplete, "/v1/jobs?limit=200&state=running", "jobs", "id") + _named(
        ctx, incomplete, "/v1/jobs?limit=200&state=queued", "jobs", "id"
    )


def artifacts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the job that stands before it."""
    job = quote(str(ctx.params.get("name") or ""), safe="")
    return _named(ctx, incomplete, f"/v1/jobs/{job}/run", "artifacts", "name")


def loops(ctx: typer.Context, incomplete: str) -> list[str]:
    return starting(incomplete, members(ctx, "/v1/loops", "loops", "model", LEARNING, "settings"))


def feedback_sets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Data sets of the feedback store."""
    return _named(ctx, incomplete, "/v1/data-sets", "data_sets", "name")


def teams(ctx: typer.Context, incomplete: str) -> list[str]:
    return _named(ctx, incomplete, "/v1/quotas", "quotas", "team")


def _named(ctx: typer.Context, incomplete: str, path: str, several: str, member: str) -> list[str]:
    return starting(incomplete, members(ctx, path, several, member, LEARNING))
