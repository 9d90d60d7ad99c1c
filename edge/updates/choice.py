"""Which release this device should run. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from edge.updates.release import Release
from edge.updates.state import State, refusal_of_target


@dataclass(frozen=True, slots=True)
class Choice:
    """`release` to take now, or None and why not."""

    release: Release | None
    why: str
    blocked: bool = True
    """Without a release: another look at the same state would not find one."""


def choose(state: State, releases: Sequence[Release], pin: str | None) -> Choice:
    """The release with the highest number, or the pinned version; None when that runs already, was
    refused under this number, or is held back.

    A newest release with a lower number than the active one's is taken: the active one was retired.
    On a device that follows a fleet: the release that its target names, whatever its number.
    """
    if state.follows:
        return _followed(state, releases)
    if not releases:
        return Choice(None, "nothing is released")
    wanted = max(releases, key=lambda release: release.number)
    if pin is not None:
        pinned = [release for release in releases if release.version == pin]
        if not pinned:
            return Choice(None, f"{pin} is pinned, but it is not released; release it, or unpin")
        wanted = max(pinned, key=lambda release: release.number)
    if wanted.same_as(state.active):
        return Choice(None, f"{wanted} runs already")
    if state.held_number is not None and wanted.number <= state.held_number:
        return Choice(
            None, f"held back since an operator's rollback: {wanted}; release the hold to take it"
        )
    for refusal in state.refused:
        if wanted.same_as(refusal.release) and wanted.number <= refusal.release.number:
            return Choice(None, f"{wanted} was refused: {refusal.why}")
    return Choice(wanted, f"{wanted} is the {'pinned' if pin else 'newest'} release")


def _followed(state: State, releases: Sequence[Release]) -> Choice:
    target = state.target
    if target is None:
        return Choice(None, "the fleet has asked for nothing yet")
    if target.names(state.active):
        return Choice(None, f"{state.active} runs already, as the fleet asks")
    if state.held_number is not None:
        return Choice(
            None, f"held back since an operator's rollback: {target}; release the hold to take it"
        )
    if (refusal := refusal_of_target(state)) is not None:
        return Choice(None, f"{target} was refused: {refusal.why}")
    named = [release for release in releases if target.names(release)]
    if not named:
        why = f"the fleet asks for {target}, which the signed metadata here does not name"
        return Choice(None, f"{why}; release it, or wait for the replica", blocked=False)
    wanted = max(named, key=lambda release: release.number)
    return Choice(wanted, f"the fleet asks for {wanted}", blocked=False)
