"""What a device of a fleet does about the fleet's target. Pure.

The signed metadata has the last word about what may be fetched; what is installed was named by it.
"""

from dataclasses import replace

from edge.updates.choice import choose
from edge.updates.events import Followed, Offered, Report, Stage, Try
from edge.updates.release import Release
from edge.updates.state import WAITING, State, refusal_of_target
from edge.updates.target import Target
from edge.updates.transitions import Step, begun, ended, restoring, waiting


def followed(state: State, event: Followed) -> Step:
    """Take a target that is newer; a copy and an old one change nothing."""
    target, before = event.target, state.target
    if target is None:
        if state.follows and before is None:
            return state, ()
        return toward(replace(state, follows=True, target=None))
    if target.generation < state.followed or (
        target.generation == state.followed and before is not None
    ):
        return state, ()
    taken = replace(state, follows=True, target=target, followed=target.generation)
    return toward(taken, event.factory, anew=not target.same_try(before))


def toward(state: State, factory: Release | None = None, *, anew: bool = True) -> Step:
    """What the target asks for, as far as no look at the registry is needed for it.

    `anew`: what came of an earlier target does not count for this one.
    """
    target, candidate = state.target, state.candidate
    if state.held_number is not None:
        return state, ()  # an operator on the device wins; nothing is on its way
    if target is None:
        return waiting(state, "idle", "the fleet asks for nothing")
    if target.names(state.active):
        return waiting(state, "active", f"{state.active} runs, as the fleet asks")
    if (refusal := refusal_of_target(state)) is not None:
        return waiting(state, "rejected", refusal.why)
    at_once = target.undo and target.stage == "live"
    if at_once and state.phase != "restoring" and (kept := _kept(state, target, factory)):
        return restoring(state, kept)
    if candidate is not None and target.names(candidate):
        return _on_its_way(state, candidate, target)
    if anew or state.phase not in WAITING:
        return waiting(state, "idle", f"the fleet asks for {target}")
    return state, ()


def _on_its_way(state: State, candidate: Release, target: Target) -> Step:
    number = state.generation
    match state.phase, target.stage:
        case "staged", "live":
            why = "the fleet says live"
            return replace(state, phase="trial", why=why, tries=0), (
                Try(number, candidate), Report(number),
            )  # fmt: skip
        case "trial", "shadow":
            why = "the fleet says shadow"
            return replace(state, phase="staged", why=why, tries=0), (
                Stage(number, candidate), Report(number),
            )  # fmt: skip
        case "restoring", "shadow":
            return ended(state, "idle", f"the fleet asks for {target} in shadow")
        case _:
            return state, ()


def _kept(state: State, target: Target, factory: Release | None) -> Release | None:
    return next((r for r in (*state.previous, factory) if r and target.names(r)), None)


def offered(state: State, event: Offered) -> Step:
    """Fresh metadata, on a device that follows a fleet."""
    target = state.target
    if state.phase == "restoring":
        return state, ()
    choice = choose(state, event.releases, event.pin)
    if choice.blocked or target is None:
        return state, ()
    if target.undo and target.stage == "live" and (kept := _kept(state, target, None)):
        return restoring(state, kept)
    if choice.release is not None:
        if choice.release.same_as(state.candidate):
            return state, ()
        return begun(state, choice.release, choice.why)
    return waiting(state, "idle" if event.patient else "failed", choice.why)


def unseen(state: State, why: str) -> Step:
    """A device that cannot look says so; it goes on trying."""
    wanted = state.follows and state.candidate is None and not choose(state, (), None).blocked
    return waiting(state, "failed", why) if wanted and state.phase != "failed" else (state, ())
