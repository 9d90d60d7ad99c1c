"""Whether a loop's cycle runs, for who is about to speak to it. Pure."""

from cloud.learning.documents import Cycle, Loop
from shared.errors import Conflict


def running(loop: Loop) -> Cycle:
    """Raises `Conflict` where none does, or it cannot be read."""
    model = loop.settings.model
    _check_readable(loop)
    if loop.cycle is None:
        raise Conflict(f"{model}: no cycle runs; begin one: hybridge loop begin {model} -m WHY")
    return loop.cycle


def check_none_runs(loop: Loop) -> None:
    """Raises `Conflict`."""
    _check_readable(loop)
    if loop.cycle is not None:
        raise Conflict(f"{loop.settings.model}: {loop.cycle.id} runs already")


def _check_readable(loop: Loop) -> None:
    model = loop.settings.model
    if loop.unreadable is not None:
        raise Conflict(
            f"{model}: {loop.unreadable} was written by another version of the learning process; start "
            f"that one, or give the cycle up with its loop: hybridge loop delete {model}"
        )
