"""How a candidate's way begins and ends, whoever chose it. Pure."""

from dataclasses import replace

from edge.updates.events import Command, Fetch, Prune, Report, Restore
from edge.updates.release import Release
from edge.updates.state import REFUSED_MAX, WHY_MAX, Phase, Refusal, State, attempt_for

Step = tuple[State, tuple[Command, ...]]


def begun(state: State, release: Release, why: str) -> Step:
    """On its way from now on; another that was is given up."""
    number = state.generation + 1
    after = replace(
        state, phase="downloading", why=why[:WHY_MAX], generation=number, candidate=release, tries=0,
    )  # fmt: skip
    return after, (Prune(number), Fetch(number, release), Report(number))


def restoring(state: State, release: Release) -> Step:
    """Back to a version that is installed; another that was on its way is given up."""
    number = state.generation + 1
    why = f"the fleet goes back to {release}"
    after = replace(
        state, phase="restoring", why=why, generation=number, candidate=release, tries=0,
    )  # fmt: skip
    return after, (Prune(number), Restore(number, release), Report(number))


def ended(state: State, phase: Phase, why: str) -> Step:
    """Without a candidate."""
    number = state.generation + 1
    after = replace(
        state, phase=phase, why=why[:WHY_MAX], candidate=None, tries=0, generation=number
    )
    return after, (Prune(number), Report(number))


def waiting(state: State, phase: Phase, why: str) -> Step:
    """`ended`, where somebody may be on its way or not."""
    if state.candidate is not None:
        return ended(state, phase, why)
    after = replace(state, phase=phase, why=why[:WHY_MAX])
    return after, (() if after == state else (Report(state.generation),))


def refused(
    state: State, release: Release, why: str, *, golden: bool = False, ran: bool = False
) -> State:
    refusal = Refusal(release, why[:WHY_MAX], attempt_for(state, release), golden, ran)
    others = tuple(r for r in state.refused if not r.release.same_as(release))
    return replace(state, refused=(refusal, *others)[:REFUSED_MAX])
