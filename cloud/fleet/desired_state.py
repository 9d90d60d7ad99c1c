"""What each device should have now, and when that is a new generation. Pure.

A device takes a section only when its generation is higher than that of the last one that it took,
and keeps that on disk. So the region's counter must never fall behind a device's: after the region
lost its store, the generations that devices report carry it over (`next_generation`).
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from cloud.fleet.documents import Group, Profile
from shared.fleet.desired import DesiredModel, DesiredProfile, Section

Desired = DesiredModel | DesiredProfile
_D = TypeVar("_D", DesiredModel, DesiredProfile)

GENERATION_BELIEVED_MAX: Final = 2**52
"""Reports above it are lies: no counter comes so far, and one that did could not go on."""
UNNUMBERED: Final = 1
"""In the place of the generation of what is not ordered yet."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Of one device."""

    group: Group
    profile: Profile | None
    """The one that the group names."""
    model: str | None
    """That the device says to run. None: it said nothing yet, so which one it can run is open."""
    desired_model: DesiredModel | None = None
    desired_profile: DesiredProfile | None = None
    seen_model: int = 0
    """Highest generation of each section that the device reported."""
    seen_profile: int = 0
    held: frozenset[Section] = frozenset()
    """Sections that a rollout decides about."""
    revoked: bool = False


def section_of(desired: Desired) -> Section:
    return "model" if isinstance(desired, DesiredModel) else "profile"


def next_generation(current: int, seen: int) -> int:
    """Above both what was ordered and what the device says to have taken, if that can be."""
    return max(current, seen if seen <= GENERATION_BELIEVED_MAX else 0) + 1


def ordered(current: _D | None, new: _D, seen: int) -> _D | None:
    """`new` with its generation. None: it is what was ordered already, and the device can take it."""
    generation = current.generation if current is not None else 0
    if current is not None and new == current.model_copy(update={"generation": new.generation}):
        lost = generation < seen <= GENERATION_BELIEVED_MAX
        if not lost:
            return None
    return new.model_copy(update={"generation": next_generation(generation, seen)})


def settled(situation: Situation) -> tuple[Desired, ...]:
    """What has to be ordered now, with generations: where its group's baselines say something else
    than what was ordered last, in the sections that no rollout holds; and what it cannot take
    because its own counter is ahead.
    """
    if situation.revoked:
        return ()
    model = ordered_or_kept(situation.desired_model, _model(situation), situation.seen_model)
    profile = ordered_or_kept(
        situation.desired_profile, _profile(situation), situation.seen_profile
    )
    return tuple(one for one in (model, profile) if one is not None)


def ordered_or_kept(current: _D | None, wanted: _D | None, seen: int) -> _D | None:
    """As `ordered`; nothing wanted: the current one stays wanted."""
    wanted = wanted if wanted is not None else current
    return ordered(current, wanted, seen) if wanted is not None else None


def _model(situation: Situation) -> DesiredModel | None:
    current = situation.desired_model
    baseline = situation.group.models.get(situation.model or "")
    if "model" in situation.held or situation.model is None or baseline is None:
        return None
    same = (
        current is not None
        and current.model == situation.model
        and current.version == baseline.version
        and current.manifest_sha256 == baseline.manifest_sha256
    )
    return DesiredModel(
        generation=UNNUMBERED, model=situation.model, version=baseline.version,
        manifest_sha256=baseline.manifest_sha256,
        attempt=current.attempt if same and current is not None else 1,
    )  # fmt: skip


def _profile(situation: Situation) -> DesiredProfile | None:
    current, profile = situation.desired_profile, situation.profile
    if "profile" in situation.held or profile is None:
        return None
    same = current is not None and current.sha256 == profile.sha256
    return DesiredProfile(
        generation=UNNUMBERED, name=profile.name, version=profile.version, sha256=profile.sha256,
        settings=profile.settings, attempt=current.attempt if same and current is not None else 1,
    )  # fmt: skip
