"""Which version to open when the agent starts, and what follows when one does not open. Pure.

A version that was swapped in must prove itself: should the agent die again and again with it, the
one before it runs at the next start.
"""

from dataclasses import dataclass, replace

from edge.updates.release import Release
from edge.updates.state import KEPT, REFUSED_MAX, WHY_MAX, Refusal, State, attempt_for

STARTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """A version that would not open, or with which the agent kept dying."""

    release: Release
    why: str
    refuse: bool  # False for damaged files: fetched again they may be whole


def begin(state: State) -> tuple[State, tuple[Fault, ...]]:
    """Count this start; with the faults that are known before anything is opened."""
    if state.proven:
        return state, ()
    counted = replace(state, starts=state.starts + 1)
    if counted.starts <= STARTS_MAX:
        return counted, ()
    why = f"the agent started {STARTS_MAX} times with {state.active} and did not last"
    return counted, (Fault(state.active, why, refuse=True),)


def in_order(state: State, factory: Release) -> tuple[Release, ...]:
    """What to try, the best first: as they ran, so that one that was undone comes after the one that
    ran in its place. The factory bundle is always there, last where it is none of the kept ones.
    """
    ran = tuple(
        factory if release.factory or release.same_as(factory) else release
        for release in (state.active, *state.previous)
    )
    return tuple(dict.fromkeys((*ran, factory)))


def fall_back(state: State, opened: Release, faults: tuple[Fault, ...]) -> State:
    """`opened` runs, since what stood before it is at fault: that is not kept any more."""
    if not faults:
        return replace(state, active=opened, phase="idle", why=f"{opened} was put in its place")
    bad = {fault.release.manifest_sha256 for fault in faults}
    rest = tuple(
        r
        for r in (state.active, *state.previous)
        if r.manifest_sha256 not in bad and not r.same_as(opened)
    )
    new = tuple(
        Refusal(f.release, f.why[:WHY_MAX], attempt_for(state, f.release), ran=True)
        for f in faults
        if f.refuse
    )
    refused = tuple(r for r in state.refused if r.release.manifest_sha256 not in bad)
    why = "; ".join(f"{fault.release}: {fault.why}" for fault in faults)
    other = state.follows and not any(
        state.target and state.target.names(f.release) for f in faults
    )
    return replace(
        state, active=opened, previous=rest[:KEPT], phase="idle" if other else "failed", candidate=None, tries=0,
        why=f"fell back to {opened}: {why}"[:WHY_MAX], generation=state.generation + 1,
        proven=True, starts=0, refused=(*new, *refused)[:REFUSED_MAX],
    )  # fmt: skip
