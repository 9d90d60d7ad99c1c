"""The way of an update: idle -> downloading -> verifying -> probing -> trial -> active. Pure.

The state is on disk before a command runs, so that a kill -9 at any point resumes: every command
may come twice. Events of another generation are of a candidate that was given up, and change nothing.
"""

from dataclasses import replace
from typing import assert_never

from edge.updates.choice import choose
from edge.updates.events import (
    Activate,
    Command,
    Downloaded,
    Event,
    Failed,
    Fetch,
    HoldReleased,
    Interrupted,
    Offered,
    Probe,
    Probed,
    Proven,
    Prune,
    Rejected,
    Report,
    Resumed,
    RetryAsked,
    RolledBack,
    Started,
    Stopped,
    SwapFailed,
    Tried,
    Try,
    Verified,
    Verify,
)
from edge.updates.release import Release
from edge.updates.state import KEPT, REFUSED_MAX, WHY_MAX, Phase, Refusal, State

TRIES_MAX = 3  # a candidate in whose probe or trial the agent died this often is at fault


Step = tuple[State, tuple[Command, ...]]


def step(state: State, event: Event) -> Step:
    match event:
        case Started():
            return _started(state)
        case Resumed():
            return state, _work(state)
        case Offered(releases, pin):
            return _offered(state, releases, pin)
        case RolledBack(release):
            return _rolled_back(state, release)
        case HoldReleased():
            return replace(state, held_number=None), ()
        case RetryAsked():
            return replace(state, refused=()), ()
        case Proven():
            return replace(state, proven=True, starts=0), ()
        case Stopped():
            return replace(state, starts=0, tries=0), ()
        case SwapFailed():
            return (
                _swap_failed(state, event) if event.generation == state.generation else (state, ())
            )
        case Downloaded() | Interrupted() | Verified() | Probed() | Tried() | Rejected() | Failed():
            if state.candidate is None or event.generation != state.generation:
                return state, ()
            return _of_candidate(state, state.candidate, event)
        case _:
            assert_never(event)


def _of_candidate(
    state: State,
    candidate: Release,
    event: Downloaded | Interrupted | Verified | Probed | Tried | Rejected | Failed,
) -> Step:
    number = state.generation
    match event, state.phase:
        case Rejected(why=why), _:
            return _ended(_refuse(state, candidate, why), "rejected", why)
        case Failed(why=why), _:
            return _ended(state, "failed", why)
        case Interrupted(why=why), "downloading":
            return replace(state, why=why[:WHY_MAX]), ()
        case Downloaded(), "downloading":
            return replace(state, phase="verifying", why=""), (Verify(number, candidate),)
        case Verified(), "verifying":
            return replace(state, phase="probing", why="", tries=0), (Probe(number, candidate),)
        case Probed(why=why), "probing":
            after = replace(state, phase="trial", why=why[:WHY_MAX], tries=0)
            return after, (Try(number, candidate), Report(number))
        case Tried(why=why), "trial":
            return _activated(state, candidate, why)
        case _:
            return state, ()  # a second copy, or of a phase that is over


def _started(state: State) -> Step:
    if state.candidate is None:
        return state, (Prune(state.generation), Report(state.generation))
    after = replace(state, generation=state.generation + 1)
    if state.phase in ("probing", "trial"):
        after = replace(after, tries=state.tries + 1)
        if after.tries >= TRIES_MAX:
            why = f"the agent ended {after.tries} times during its {state.phase}"
            return _ended(_refuse(after, state.candidate, why), "rejected", why)
    return after, (Prune(after.generation), *_work(after), Report(after.generation))


def _work(state: State) -> tuple[Command, ...]:
    """What the phase is for."""
    number, candidate = state.generation, state.candidate
    if candidate is None:
        return ()
    match state.phase:
        case "downloading":
            return (Fetch(number, candidate),)
        case "verifying":
            return (Verify(number, candidate),)
        case "probing":
            return (Probe(number, candidate),)
        case "trial":
            return (Try(number, candidate),)
        case "idle" | "active" | "rejected" | "failed":
            return ()  # never with a candidate
        case _:
            assert_never(state.phase)


def _offered(state: State, releases: tuple[Release, ...], pin: str | None) -> Step:
    choice = choose(state, releases, pin)
    if choice.release is None:
        if state.candidate is None:
            return state, ()
        return _ended(state, "idle", choice.why)  # it was retired while it was on its way
    if choice.release.same_as(state.candidate):
        return state, ()
    number = state.generation + 1
    after = replace(
        state, phase="downloading", why=choice.why, generation=number, candidate=choice.release,
        tries=0,
    )  # fmt: skip
    return after, (Prune(number), Fetch(number, choice.release), Report(number))


def _activated(state: State, candidate: Release, why: str) -> Step:
    others = (state.active, *state.previous)
    previous = tuple(r for r in others if not r.same_as(candidate))[:KEPT]
    after = replace(
        state, active=candidate, previous=previous, phase="active", why=why[:WHY_MAX],
        candidate=None, tries=0, proven=False, starts=0, held_number=None,
    )  # fmt: skip
    number = state.generation
    return after, (Activate(number, candidate), Prune(number), Report(number))


def _swap_failed(state: State, event: SwapFailed) -> Step:
    if event.still.same_as(state.active):
        return state, ()
    rest = tuple(r for r in state.previous if not r.same_as(event.still))
    after = replace(state, active=event.still, previous=rest, proven=True, starts=0)
    return _ended(_refuse(after, state.active, event.why), "rejected", event.why)


def _rolled_back(state: State, release: Release) -> Step:
    """The version that is left stays as the last resort: coming back to it needs no download."""
    if not release.factory and not any(r.same_as(release) for r in (state.active, *state.previous)):
        return state, ()  # it is not kept any more
    newest = max(
        r.number for r in (state.active, release, state.candidate or release, *state.previous)
    )
    rest = tuple(r for r in state.previous if not r.same_as(release))
    left = () if state.active.same_as(release) else (state.active,)
    number = state.generation + 1
    after = replace(
        state, active=release, previous=(*rest[: KEPT - len(left)], *left), phase="active",
        why="an operator rolled back", generation=number, candidate=None, tries=0, proven=True,
        starts=0, held_number=max(newest, state.held_number or 0),
    )  # fmt: skip
    return after, (Activate(number, release), Prune(number), Report(number))


def _ended(state: State, phase: Phase, why: str) -> Step:
    number = state.generation + 1
    after = replace(
        state, phase=phase, why=why[:WHY_MAX], candidate=None, tries=0, generation=number
    )
    return after, (Prune(number), Report(number))


def _refuse(state: State, release: Release, why: str) -> State:
    others = tuple(r for r in state.refused if not r.release.same_as(release))
    refused = (Refusal(release, why[:WHY_MAX]), *others)[:REFUSED_MAX]
    return replace(state, refused=refused)
