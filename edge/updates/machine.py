"""The way of an update: idle -> downloading -> verifying -> probing -> trial -> active. Pure.

On a device that follows a fleet, too: probing -> staged -> trial, and restoring -> active.

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
    Followed,
    HoldReleased,
    Interrupted,
    Lasted,
    NotRestored,
    Offered,
    Probe,
    Probed,
    Proven,
    Prune,
    Rejected,
    Report,
    Restore,
    Restored,
    Resumed,
    RetryAsked,
    RolledBack,
    Stage,
    Started,
    Stopped,
    SwapFailed,
    Tried,
    Try,
    Unseen,
    Verified,
    Verify,
)
from edge.updates.following import followed, offered, toward, unseen
from edge.updates.release import Release
from edge.updates.state import KEPT, WHY_MAX, State
from edge.updates.transitions import Step, begun, ended, refused

TRIES_MAX = 3  # a candidate in whose probe or trial the agent died this often is at fault
_RISKY = ("probing", "staged", "trial", "restoring")  # the candidate runs

_OfCandidate = (
    Downloaded | Interrupted | Verified | Probed | Tried | Lasted | Restored | NotRestored | Rejected
    | Failed
)  # fmt: skip


def step(state: State, event: Event) -> Step:
    match event:
        case Started():
            return _started(state)
        case Resumed():
            return state, _work(state)
        case Offered(releases, pin):
            return offered(state, event) if state.follows else _offered(state, releases, pin)
        case Unseen(why):
            return unseen(state, why)
        case Followed():
            return followed(state, event)
        case RolledBack(release):
            return _rolled_back(state, release)
        case HoldReleased(factory):
            free = replace(state, held_number=None)
            if not state.follows or state.held_number is None:
                return free, ()
            return toward(free, factory)
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
        case (
            Downloaded() | Interrupted() | Verified() | Probed() | Tried() | Lasted() | Restored()
            | NotRestored() | Rejected() | Failed()
        ):  # fmt: skip
            if state.candidate is None or event.generation != state.generation:
                return state, ()
            return _of_candidate(state, state.candidate, event)
        case _:
            assert_never(event)


def _of_candidate(state: State, candidate: Release, event: _OfCandidate) -> Step:
    number = state.generation
    match event, state.phase:
        case Rejected(why=why, golden=golden), _:
            return ended(refused(state, candidate, why, golden=golden), "rejected", why)
        case Failed(why=why), _:
            return ended(state, "failed", why)
        case Interrupted(why=why), "downloading":
            return replace(state, why=why[:WHY_MAX]), ()
        case Downloaded(), "downloading":
            return replace(state, phase="verifying", why=""), (Verify(number, candidate),)
        case Verified(), "verifying":
            return replace(state, phase="probing", why="", tries=0), (Probe(number, candidate),)
        case Probed(why=why), "probing":
            return _probed(state, candidate, why)
        case Tried(why=why), "trial":
            return _activated(state, candidate, why, proven=False)
        case Lasted(), "staged":
            return replace(state, tries=0), ()
        case Restored(), "restoring":
            return _activated(state, candidate, state.why, proven=True)
        case NotRestored(why=why), "restoring":
            rest = tuple(r for r in state.previous if not r.same_as(candidate))
            return ended(replace(state, previous=rest), "idle", f"{candidate} is not usable: {why}")
        case _:
            return state, ()  # a second copy, or of a phase that is over


def _probed(state: State, candidate: Release, why: str) -> Step:
    target, number = state.target, state.generation
    after = replace(state, why=why[:WHY_MAX], tries=0)
    if state.follows and target is not None and target.stage == "shadow":
        return replace(after, phase="staged"), (Stage(number, candidate), Report(number))
    return replace(after, phase="trial"), (Try(number, candidate), Report(number))


def _started(state: State) -> Step:
    if state.candidate is None:
        return state, (Prune(state.generation), Report(state.generation))
    if state.follows and not (state.target and state.target.names(state.candidate)):
        return ended(state, "idle", f"{state.candidate} is not what the fleet asks for")
    after = replace(state, generation=state.generation + 1)
    if state.phase in _RISKY:
        after = replace(after, tries=state.tries + 1)
        if after.tries >= TRIES_MAX:
            why = f"the agent ended {after.tries} times during its {state.phase}"
            return ended(refused(after, state.candidate, why), "rejected", why)
    if not state.follows and state.phase == "restoring":
        return ended(state, "idle", "this device does not follow a fleet any more")
    if not state.follows and state.phase == "staged":
        after = replace(after, phase="trial")
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
        case "staged":
            return (Stage(number, candidate),)
        case "trial":
            return (Try(number, candidate),)
        case "restoring":
            return (Restore(number, candidate),)
        case "idle" | "active" | "rejected" | "failed":
            return ()  # never with a candidate
        case _:
            assert_never(state.phase)


def _offered(state: State, releases: tuple[Release, ...], pin: str | None) -> Step:
    choice = choose(state, releases, pin)
    if choice.release is None:
        if state.candidate is None:
            return state, ()
        return ended(state, "idle", choice.why)  # it was retired while it was on its way
    if choice.release.same_as(state.candidate):
        return state, ()
    return begun(state, choice.release, choice.why)


def _activated(state: State, candidate: Release, why: str, *, proven: bool) -> Step:
    others = (state.active, *state.previous)
    previous = tuple(r for r in others if not r.same_as(candidate))[:KEPT]
    after = replace(
        state, active=candidate, previous=previous, phase="active", why=why[:WHY_MAX],
        candidate=None, tries=0, proven=proven, starts=0, held_number=None,
    )  # fmt: skip
    number = state.generation
    return after, (Activate(number, candidate), Prune(number), Report(number))


def _swap_failed(state: State, event: SwapFailed) -> Step:
    if event.still.same_as(state.active):
        return state, ()
    rest = tuple(r for r in state.previous if not r.same_as(event.still))
    after = replace(state, active=event.still, previous=rest, proven=True, starts=0)
    return ended(refused(after, state.active, event.why), "rejected", event.why)


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
