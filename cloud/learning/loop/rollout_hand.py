"""Commands for the fleet: rollouts, and what its drift says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cloud.fleet.client.client import FleetClient
from cloud.fleet.documents import EVERYBODY
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.rollout_spec import rollout_spec
from cloud.learning.neighbours import fleet_at
from cloud.learning.settings import LearningFleet
from cloud.monitoring.drift.documents import Accuracy, Alarm, Cause, Kind
from cloud.rollouts.documents import ModelSubject, RolloutStatus, RolloutView
from shared.errors import Conflict, Unavailable

_ALARMS_MAX: Final = 100_000
"""That are on: all of them, since newer ones of devices would hide a group's. The fleet has a bound of
its own, which is 1,000 unless somebody set it."""
_LAST: Final = "watch"


class RolloutHand:
    def __init__(self, settings: LearningFleet | None) -> None:
        """None: there is no fleet, and devices take what the registry releases."""
        self._settings = settings

    async def rolled(self, command: c.Roll) -> e.RolloutMade:
        if self._settings is None:
            return e.RolloutMade(None)
        async with self._fleet() as fleet:
            view = _of_seed(await fleet.rollouts.all(), command)
            if view is None:
                view = await fleet.rollouts.create(rollout_spec(command))
            if view.status is RolloutStatus.DRAFT:
                try:
                    await fleet.rollouts.tell("start", view.id, command.comment, view.revision)
                except Conflict as error:  # another one runs, or somebody spoke meanwhile
                    raise Unavailable(str(error)) from error
            return e.RolloutMade(view.id)

    async def seen(self, command: c.WatchRollout) -> e.RolloutSeen:
        if self._settings is None:
            return e.RolloutSeen(None)
        async with self._fleet() as fleet:
            alarms = tuple(
                one for one in await fleet.drift.alarms(at_most=_ALARMS_MAX)
                if is_about(one, command)
            )  # fmt: skip
            if command.rollout is None:
                return e.RolloutSeen(None, alarms=alarms)
            view = await fleet.rollouts.get(command.rollout)
        is_open = view.stage < len(view.stages)
        stage = view.stages[view.stage] if is_open else None
        return e.RolloutSeen(
            view.status,
            is_watching=stage is not None and stage.kind == _LAST and stage.opened_at is not None,
            waits_for="" if stage is None else f"{stage.kind} {stage.number}, {stage.waits_for}"[:400],
            why=view.why[:500], alarms=alarms,
        )  # fmt: skip

    async def undone(self, command: c.Undo) -> e.CleanedUp:
        if self._settings is None:
            return e.CleanedUp()
        async with self._fleet() as fleet:
            view = await fleet.rollouts.get(command.rollout)
            if view.undoing or view.status is RolloutStatus.ROLLED_BACK:
                return e.CleanedUp(f"rollout {view.id} is undone")
            try:
                await fleet.rollouts.tell("undo", view.id, command.why, view.revision)
            except Conflict as error:
                after = await fleet.rollouts.get(command.rollout)
                if after.revision != view.revision:  # somebody spoke meanwhile: look again
                    raise Unavailable(str(error)) from error
                return e.CleanedUp(f"rollout {view.id} stays as it is: {error}")
        return e.CleanedUp(f"rollout {view.id} is being undone")

    async def alarms(self, model: str) -> tuple[Alarm, ...]:
        if self._settings is None:
            return ()
        async with self._fleet() as fleet:
            found = await fleet.drift.alarms(at_most=_ALARMS_MAX)
        return tuple(one for one in found if one.scope.model == model)

    async def accuracy(self, model: str, version: str, group: str) -> Accuracy | None:
        if self._settings is None:
            return None
        kind, name = ("fleet", None) if group == EVERYBODY else ("group", group)
        async with self._fleet() as fleet:
            state = await fleet.drift.state(kind, name, model)
        return next(
            (
                one.accuracy for one in state.scopes
                if one.scope.version == version and one.accuracy is not None
            ),
            None,
        )  # fmt: skip

    @asynccontextmanager
    async def _fleet(self) -> AsyncIterator[FleetClient]:
        assert self._settings is not None
        async with fleet_at(self._settings) as fleet:
            yield fleet


def is_about(alarm: Alarm, command: c.WatchRollout) -> bool:
    """Whether it says that the new version is worse; a scene that changes is none of its doing."""
    scope = alarm.scope
    blames = alarm.kind is Kind.ACCURACY or alarm.cause is Cause.MODEL
    return (
        blames
        and scope.kind != "device"
        and (scope.model, scope.version) == (command.model, command.version)
        and alarm.opened_at >= command.since
    )


def _of_seed(views: list[RolloutView], command: c.Roll) -> RolloutView | None:
    """The one that this very cycle made before."""
    for view in views:
        subject = view.spec.subject
        if (
            view.spec.seed == command.seed
            and isinstance(subject, ModelSubject)
            and (subject.model, subject.version) == (command.model, command.version)
        ):
            return view
    return None
