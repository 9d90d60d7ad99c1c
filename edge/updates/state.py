"""Where an update stands, as it is kept on disk. Pure.

`active` and `previous` are the pointer: one atomic write of the file moves it.
"""

from dataclasses import dataclass
from typing import Literal

from edge.updates.release import Release
from edge.updates.target import Target

KEPT = 2
"""Versions before the active one that stay installed."""
REFUSED_MAX = 8
WHY_MAX = 500

Phase = Literal[
    "idle", "downloading", "verifying", "probing", "staged", "trial", "restoring", "active", "rejected",
    "failed",
]  # fmt: skip
"""The last three say how the last update ended; they wait for the next as `idle` does.

Of a fleet's device alone: `staged` has passed everything and runs in shadow until the fleet says
live; `restoring` opens a kept version that the fleet goes back to.
"""
WAITING: tuple[Phase, ...] = ("idle", "active", "rejected", "failed")
"""Without a candidate."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that did not pass. It is not tried again under this number; on a fleet's device,
    under this attempt.
    """

    release: Release
    why: str
    attempt: int = 0  # of the fleet's; 0: nobody of the fleet had asked for it
    golden: bool = False  # its golden samples were the reason
    ran: bool = False  # it answered already, and the device went back by itself


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
    follows: bool = False  # the fleet says what to run, and not the newest number
    target: Target | None = None  # what it says
    followed: int = 0  # generation of the last target that was taken: lower ones are old

    @property
    def busy(self) -> bool:
        return self.candidate is not None


def first_state(model: str, factory: Release) -> State:
    """Of a device that has never updated."""
    return State(model=model, active=factory)


def attempt_for(state: State, release: Release) -> int:
    """Of the fleet's wish for this release; 0 when it has none."""
    target = state.target
    return target.attempt if state.follows and target and target.names(release) else 0


def refusal_of_target(state: State) -> Refusal | None:
    """That still stands against what the fleet asks for."""
    target = state.target
    if target is None:
        return None
    return next(
        (r for r in state.refused if target.names(r.release) and r.attempt >= target.attempt), None
    )
