"""A group's profile at the fleet: which it has, whether another rollout is in the way, and its own."""

import contextlib
import hashlib
from typing import Final

from cloud.fleet.client.client import FleetClient
from cloud.fleet.documents import EVERYBODY, Profile
from cloud.learning.documents import LoopSettings
from cloud.rollouts.documents import ProfileSubject, RolloutStatus, RolloutView
from shared.errors import Conflict, Unknown
from shared.fleet.profile import ProfileSettings, digest

_CRITERIA: Final = ("silent <= 0.05",)
_RUNS: Final = frozenset({RolloutStatus.RUNNING, RolloutStatus.PAUSED})
_HELD_MAX: Final = 1_000_000
"""Devices of one rollout, as many as it may have at once."""


class RolloutRuns(Conflict):
    """Another rollout of a profile has the group or a device of it."""


async def profile_of(fleet: FleetClient, group: str) -> Profile | None:
    """None where the group has none."""
    has = (await fleet.group(group)).profile
    if has is None:
        return None
    for one in await fleet.profiles(has.name):
        if one.version == has.version:
            return one
    raise Unknown(f"profile {has.name} {has.version} is not in the fleet")


async def check_is_free(fleet: FleetClient, group: str, sha256: str | None = None) -> None:
    """Raises `RolloutRuns` where the fleet would not start a rollout of a profile in the group, before
    anything is made that would wait for it. One of settings of that `sha256` is no other one.
    """
    others = []
    for view in await fleet.rollouts.all():
        subject = view.spec.subject
        if not isinstance(subject, ProfileSubject) or not _is_active(view):
            continue
        if view.spec.group != group:
            others.append(view)
        elif subject.sha256 != sha256 or view.status not in _RUNS:
            raise RolloutRuns(f"{_named(view)}; the new threshold waits for its end")
        else:
            return
    if others:
        await _check_devices(fleet, group, others)


async def _check_devices(fleet: FleetClient, group: str, others: list[RolloutView]) -> None:
    """Raises `RolloutRuns` where a device of the group is in one of them: each has one at a time."""
    is_all = group == EVERYBODY
    ours = set() if is_all else {one.id for one in await fleet.devices() if one.group == group}
    for view in others:
        for held in await fleet.rollouts.devices(view.id, at_most=1 if is_all else _HELD_MAX):
            if is_all or held.device in ours:
                raise RolloutRuns(
                    f"{_named(view)}, and device {held.device} is in it; the new threshold for group "
                    f"{group} waits for its end"
                )


async def pushed(fleet: FleetClient, name: str, settings: ProfileSettings) -> Profile:
    """The next version with these settings, or the newest where it has them already."""
    try:
        versions = await fleet.profiles(name)
    except Unknown:
        versions = []
    newest = max(versions, key=lambda one: one.version, default=None)
    if newest is not None and newest.sha256 == digest(settings):
        return newest
    number = 1 if newest is None else newest.version + 1
    return await fleet.push_profile(
        name, number, settings.model_dump(mode="json", exclude_none=True)
    )


async def rolled(fleet: FleetClient, loop: LoopSettings, profile: Profile, why: str) -> None:
    """Its rollout, found again where it was made before. A group takes the profile when it is over;
    where somebody has put it back since, it is rolled out again. Raises `RolloutRuns` where another one
    was started meanwhile; then no draft is left.
    """
    seed = hashlib.sha256(f"{loop.group} {profile.name} {profile.version}".encode()).hexdigest()[
        :16
    ]
    views = await fleet.rollouts.all()
    has = (await fleet.group(loop.group)).profile  # after: one that ends meanwhile is no other
    is_there = has is not None and (has.name, has.version) == (profile.name, profile.version)
    alive = _RUNS | {RolloutStatus.DRAFT} | ({RolloutStatus.SUCCEEDED} if is_there else set())
    for view in views:
        subject = view.spec.subject
        if (
            view.spec.seed == seed
            and isinstance(subject, ProfileSubject)
            and (subject.name, subject.version) == (profile.name, profile.version)
            and view.status in alive
        ):
            break
    else:
        view = await fleet.rollouts.create({
            "subject": {"kind": "profile", "name": profile.name, "version": profile.version},
            "group": loop.group, "seed": seed, "shadow_s": 0, "criteria": list(_CRITERIA),
            "samples_min": 1, "done_samples": 1, "wave_s": 60.0 if loop.rollout_stages == "default" else 1.0,
            "watch_s": 0,
        })  # fmt: skip
    if view.status is RolloutStatus.DRAFT:
        await _started(fleet, view, loop.group, why[:500])


async def _started(fleet: FleetClient, draft: RolloutView, group: str, why: str) -> None:
    try:
        await fleet.rollouts.tell("start", draft.id, why, draft.revision)
    except Conflict as error:
        with contextlib.suppress(Conflict):  # somebody spoke meanwhile: it is no draft any more
            await fleet.rollouts.tell("abort", draft.id, str(error)[:500], draft.revision)
        await check_is_free(fleet, group)  # only what each next look sees is waited for
        raise


def _is_active(view: RolloutView) -> bool:
    """It decides about its devices: it runs, is paused, or takes them back."""
    return view.status in _RUNS or view.undoing


def _named(view: RolloutView) -> str:
    subject = view.spec.subject
    assert isinstance(subject, ProfileSubject)
    return (
        f"rollout {view.id} of profile {subject.name} {subject.version} is "
        f"{'being undone' if view.undoing else view.status} in group {view.spec.group}"
    )
