"""Desired state as it comes in: what is newer is taken, all else changes nothing. Pure.

Each section has a generation that rises, so copies, old ones and reordered ones are harmless, and
the retained newest one is all that a device needs after weeks away. Whatever is taken is kept on
disk before an effect of it is done.
"""

import json
from dataclasses import dataclass, replace

from edge.fleet.kept import Kept
from shared.errors import HybridgeError
from shared.fleet.desired import BYTES_MAX, DesiredModel, DesiredProfile, Section
from shared.fleet.profile import digest

LEAP_MAX = 2**32
"""Generations above the last one. The region counts by one; with a stolen credential of its own one
message with the highest number there is would make a device deaf for good.
"""
_GENERATION_MAX = 2**53
_WHY_CHARS = 400


@dataclass(frozen=True, slots=True)
class Came:
    """A message of the section's topic."""

    section: Section
    content: bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of `Apply`: applied, or why not."""

    profile: DesiredProfile
    why: str = ""


@dataclass(frozen=True, slots=True)
class Follow:
    model: DesiredModel


@dataclass(frozen=True, slots=True)
class Apply:
    profile: DesiredProfile


@dataclass(frozen=True, slots=True)
class Refuse:
    """It cannot be read; what was taken before stays."""

    section: Section
    why: str


Event = Came | Judged
Effect = Follow | Apply | Refuse


def step(kept: Kept, event: Event) -> tuple[Kept, Effect | None]:
    match event:
        case Came(content=b""):
            return kept, None  # nobody's wish any more: the device stays as it is
        case Came(section="model", content=content):
            return _model(kept, content)
        case Came(content=content):
            return _profile(kept, content)
        case Judged(profile=profile, why=why):
            return _judged(kept, profile, why), None


def started(kept: Kept) -> tuple[Effect, ...]:
    """What to do at the start of the process, besides applying what was in force."""
    effects: list[Effect] = []
    if kept.model is not None:
        effects.append(Follow(kept.model))
    if kept.profile is not None and pending(kept):
        effects.append(Apply(kept.profile))  # the process ended in between
    return tuple(effects)


def pending(kept: Kept) -> bool:
    """Whether the newest profile is yet to be applied, or found not to fit."""
    return kept.profile is not None and kept.profile != kept.applied and not kept.profile_why


def lost(kept: Kept, why: str) -> Kept:
    """The profile in force does not fit the version that answers now: the device's own settings do."""
    return replace(kept, applied=None, profile_why=f"not in force any more: {why}"[:_WHY_CHARS])


def _model(kept: Kept, content: bytes) -> tuple[Kept, Effect | None]:
    try:
        model = DesiredModel.from_bytes(content, BYTES_MAX)
    except HybridgeError as error:
        why = str(error)[:_WHY_CHARS]
        generation = _generation(content)
        if kept.model_generation < generation <= kept.model_generation + LEAP_MAX:
            kept = replace(kept, model_generation=generation, model_why=why)
        return kept, Refuse("model", why)
    if model.generation <= kept.model_generation:
        return kept, None
    if model.generation > kept.model_generation + LEAP_MAX:
        return kept, Refuse("model", _leap(model.generation, kept.model_generation))
    taken = replace(kept, model=model, model_generation=model.generation, model_why="")
    return taken, Follow(model)


def _profile(kept: Kept, content: bytes) -> tuple[Kept, Effect | None]:
    try:
        profile = DesiredProfile.from_bytes(content, BYTES_MAX)
    except HybridgeError as error:
        return _refused_profile(kept, _generation(content), str(error)[:_WHY_CHARS])
    if profile.generation <= kept.profile_generation:
        return kept, None
    if profile.generation > kept.profile_generation + LEAP_MAX:
        return kept, Refuse("profile", _leap(profile.generation, kept.profile_generation))
    if (found := digest(profile.settings)) != profile.sha256:
        why = f"profile {profile.name} {profile.version}: has sha256 {found[:16]}..., not "
        return _refused_profile(kept, profile.generation, f"{why}{profile.sha256[:16]}...")
    taken = replace(
        kept, profile=profile, profile_generation=profile.generation, profile_why=""
    )  # fmt: skip
    return taken, Apply(profile)


def _refused_profile(kept: Kept, generation: int, why: str) -> tuple[Kept, Effect | None]:
    if kept.profile_generation < generation <= kept.profile_generation + LEAP_MAX:
        kept = replace(kept, profile_generation=generation, profile_why=why)
    return kept, Refuse("profile", why)


def _judged(kept: Kept, profile: DesiredProfile, why: str) -> Kept:
    if profile.generation != kept.profile_generation:
        return kept  # a newer one came meanwhile
    if why:
        return replace(kept, profile_why=why[:_WHY_CHARS])
    return replace(kept, applied=profile, profile_why="")


def _leap(generation: int, last: int) -> str:
    return (
        f"generation {generation} is too far above {last}, the last one; where that is right, "
        "remove the device from its fleet and enrol it anew"
    )


def _generation(content: bytes) -> int:
    """Of what cannot be read otherwise: a region has to hear which one was refused. 0: none."""
    if len(content) > BYTES_MAX:
        return 0
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return 0
    generation = found.get("generation") if isinstance(found, dict) else None
    if not isinstance(generation, int) or isinstance(generation, bool):
        return 0
    return generation if 0 < generation <= _GENERATION_MAX else 0
