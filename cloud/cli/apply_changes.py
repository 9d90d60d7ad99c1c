"""A fleet asked for what a file is about, and changed one step after the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from cloud.cli.apply_diff import Change, StartRollout
    from cloud.cli.apply_file import Declared
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.documents import Device

_EACH_MAX = 50  # devices that are asked for one by one; more are found in the list of all


async def differing(fleet: "FleetClient", declared: "Declared", *, prune: bool) -> "list[Change]":
    """What would change. Raises what cannot be done, before anything is."""
    from cloud.cli.apply_diff import Found, changes

    found = Found(
        groups={one.name: one for one in await fleet.groups()},
        profiles=await fleet.profiles() if declared.profiles else (),
        devices=await _devices(fleet, list(declared.devices)),
        rollouts=await fleet.rollouts.all() if declared.rollouts else (),
    )
    return changes(declared, found, prune=prune)


async def _devices(fleet: "FleetClient", names: "Sequence[str]") -> "dict[str, Device]":
    from shared.errors import Unknown

    if len(names) > _EACH_MAX:
        wanted = set(names)
        return {one.id: one for one in await fleet.devices() if one.id in wanted}
    found = {}
    for name in names:
        try:
            found[name] = await fleet.device(name)
        except Unknown:
            continue  # the difference says so
    return found


class Applying:
    """Does changes in their order, on what was seen: whoever was first wins."""

    def __init__(self) -> None:
        self.done = 0
        self.started: list[str] = []
        self._revisions: dict[str, int] = {}

    async def all(self, fleet: "FleetClient", changes: "Sequence[Change]") -> None:
        """Stops at the first that is refused; what is done stays, and is not in the next difference."""
        for one in changes:
            await self._one(fleet, one)
            self.done += 1

    async def _one(self, fleet: "FleetClient", change: "Change") -> None:
        from cloud.cli import apply_diff as diff

        match change:
            case diff.PushProfile():
                settings = change.settings.model_dump(mode="json", exclude_none=True)
                await fleet.push_profile(change.name, change.version, settings)
            case diff.PutGroup():
                revision = 0 if change.before is None else change.before.revision
                found = await fleet.put_group(
                    change.name, change.selector, change.priority, revision
                )
                self._revisions[change.name] = found.revision
            case diff.SetBaseline():
                wanted = change.baseline
                found = await fleet.set_baseline(
                    change.group, change.model, wanted.version, wanted.manifest_sha256,
                    self._revisions.get(change.group, change.revision),
                )  # fmt: skip
                self._revisions[change.group] = found.revision
            case diff.SetProfile():
                found = await fleet.set_group_profile(
                    change.group, change.profile.name, change.profile.version,
                    self._revisions.get(change.group, change.revision),
                )  # fmt: skip
                self._revisions[change.group] = found.revision
            case diff.SetLabels():
                await fleet.label(change.device, change.labels, change.revision)
            case diff.StartRollout():
                await self._start(fleet, change)
            case diff.RemoveGroup():
                group, why = change.group, "not in the applied file"
                await fleet.remove_group(group.name, why, group.revision)
            case diff.Stays():
                pass
            case _:
                assert_never(change)

    async def _start(self, fleet: "FleetClient", change: "StartRollout") -> None:
        from cloud.cli.rollout_spec import request

        draft = change.draft
        if draft is None:
            draft = await fleet.rollouts.create(request(change.request))
        begun = await fleet.rollouts.tell("start", draft.id, "applied from a file", draft.revision)
        self.started.append(begun.id)
