"""Jobs as people read them. Pure."""

import re
from typing import Final

from cloud.cli.rollout_words import percent, span
from cloud.registry.client.answers import plain
from cloud.training.documents import (
    ACTIVE,
    Distill,
    FineTune,
    Half,
    Job,
    JobState,
    Prune,
    Quantize,
    Recipe,
    Supervised,
)
from shared.errors import Malformed

STYLE: Final = {
    JobState.QUEUED: "dim", JobState.RUNNING: "cyan", JobState.STOPPING: "yellow",
    JobState.DONE: "green", JobState.FAILED: "red", JobState.CANCELLED: "yellow",
}  # fmt: skip
_REF: Final = re.compile(
    r"([a-z0-9][a-z0-9-]{0,63})@(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.ASCII
)


def is_over(job: Job) -> bool:
    return job.state not in ACTIVE


def recipe_text(recipe: Recipe) -> str:
    """As `finetune fashion-edge@1.0.0 -> 1.0.1`."""
    match recipe:
        case Supervised() | Distill():
            return f"{recipe.kind} {recipe.name} -> {recipe.version}"
        case FineTune():
            return f"{recipe.kind} {recipe.student} -> {recipe.version}"
        case Quantize() | Prune() | Half():
            return f"{recipe.kind} {recipe.source} -> {recipe.version}"


def state_text(job: Job) -> str:
    """As `running, 40%`, `queued, place 3`."""
    match job.state:
        case JobState.RUNNING | JobState.STOPPING:
            return f"{job.state}, {percent(round(job.progress, 2))}"
        case JobState.QUEUED if job.place is not None:
            return f"{job.state}, place {job.place}"
        case _:
            return str(job.state)


def summary(job: Job) -> str:
    """One line."""
    parts = [f"{job.id} {state_text(job)}", recipe_text(job.spec.recipe)]
    if job.worker and not is_over(job):
        parts.append(f"on {job.worker}")
    if job.worked_s:
        parts.append(f"worked {span(job.worked_s)}")
    if job.bundle is not None:
        parts.append(f"made {job.bundle}")
    if job.why:
        parts.append(job.why)
    return plain("; ".join(parts))


def next_patch(reference: str) -> str:
    """Of `fashion-edge@1.0.3`: `1.0.4`. Raises `Malformed`."""
    found = _REF.fullmatch(reference)
    if found is None:
        raise Malformed(f"{reference[:80]!r}: write it as MODEL@VERSION, as fashion-edge@1.0.0")
    return f"{found[2]}.{found[3]}.{int(found[4]) + 1}"
