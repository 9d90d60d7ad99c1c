"""Where an update stands, as it is kept on disk. Pure.

`active` and `previous` are the pointer: one atomic write of the file moves it.
"""

from dataclasses import dataclass
from typing import Literal

from edge.updates.release import Release

KEPT = 2
"""Versions before the active one that stay installed."""
REFUSED_MAX = 8
WHY_MAX = 500

Phase = Literal[
    "idle", "downloading", "verifying", "probing", "trial", "active", "rejected", "failed"
]
"""The last three say how the last update ended; they wait for the next as `idle` does."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that did not pass. It is not tried again under this number."""

    release: Release
    why: str


@dataclass(frozen=True, slots=True)
class State:
    model: str
    active: Release
    previous: tuple[Release, ...] = ()  # to go back to, the best first; at most KEPT
    phase: Phase = "idle"
    why: str = ""  # it is in this phase, in words
    generation: int = 0  # of the candidate, and of the commands for it
    candidate: Release | None = None
    tries: int = 0  # starts of the agent while this candidate was probed or on trial
    proven: bool = True  # the active version has run for a while in one process
    starts: int = 0  # of the agent since the swap, while it was not proven
    refused: tuple[Refusal, ...] = ()  # newest first; at most REFUSED_MAX
    held_number: int | None = None  # after an operator's rollback: nothing up to here is taken

    @property
    def busy(self) -> bool:
        return self.candidate is not None


def first_state(model: str, factory: Release) -> State:
    """Of a device that has never updated."""
    return State(model=model, active=factory)
