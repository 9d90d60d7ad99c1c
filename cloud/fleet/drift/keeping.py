"""Alarms of drift in the fleet's store: opened, closed, seen; each with its line in the log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from cloud.fleet.bounds import checked_actor, checked_words, shown
from cloud.fleet.part import Part
from cloud.fleet.store import drift_rows, rollout_rows
from cloud.fleet.store.event_rows import Line
from cloud.monitoring.drift import runbook
from cloud.monitoring.drift.board import Change
from cloud.monitoring.drift.documents import Alarm, Cause
from cloud.monitoring.drift.opened import Opened
from cloud.rollouts.documents import ModelSubject
from shared.errors import Unknown

ACTOR = "drift"


@dataclass(frozen=True, slots=True)
class Kept:
    """What the store has of a watch that ended."""

    record: str | None
    alarms: tuple[Alarm, ...]
    """Those that are on, be they more than may open now."""


class DriftKeeping(Part):
    """Synchronous and thread-safe, as `Fleet`. Raises `Unavailable` while the database is away."""

    def kept(self) -> Kept:
        def look(connection: Connection) -> Kept:
            alarms = drift_rows.alarms(connection, is_on=True, after="", limit=None)
            return Kept(drift_rows.record(connection), tuple(alarms))

        return self._database.read(look)

    def groups_of(self, devices: Iterable[str]) -> dict[str, str]:
        """Of those that are in the fleet and not revoked."""
        names = list(devices)
        return self._database.read(lambda c: drift_rows.groups_of(c, names))

    def apply(self, changes: Sequence[Change], record: str, now: float, alarms_max: int) -> None:
        """All in one transaction; the same again changes nothing."""

        def change(connection: Connection) -> None:
            for one in changes:
                self._apply(connection, one, now)
            drift_rows.put_record(connection, record)
            drift_rows.keep_newest(connection, alarms_max)

        self._database.write(change)

    def alarms(
        self, *, is_on: bool | None, after: str, limit: int
    ) -> tuple[list[Alarm], str | None]:
        """The newest first, and after which one to go on, None at the end."""
        found = self._database.read(lambda c: drift_rows.alarms(c, is_on, after, limit + 1))
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    def alarm(self, alarm: str) -> Alarm:
        """Raises `Unknown`."""
        return self._database.read(lambda c: _known(c, alarm))

    def seen(self, alarm: str, comment: str, actor: str, now: float) -> Alarm:
        """Somebody looks after it; the first one's name stays. Raises `Unknown`, `Malformed`."""
        checked_actor(actor)
        checked_words(comment, "the comment")

        def change(connection: Connection) -> Alarm:
            found = _known(connection, alarm)
            if found.seen_by:
                return found
            found = found.model_copy(update={"seen_by": actor})
            drift_rows.put(connection, [found])
            words = f"{found.id}: {comment}" if comment else found.id
            self.log(connection, now, Line("drift_seen", actor, words, _device(found)))
            return found

        return self._database.write(change)

    def _apply(self, connection: Connection, change: Change, now: float) -> None:
        alarm = change.alarm
        stored = drift_rows.alarm(connection, alarm.id)
        if isinstance(change, Opened):
            if stored is not None:
                return
            alarm = _with_rollout(connection, alarm)
            words = f"{alarm.words} ({alarm.cause.value}); {alarm.command}"
            line = Line("drift_opened", ACTOR, words, _device(alarm))
        else:
            if stored is not None:  # with who has seen it, and the command that it was given
                if stored.closed_at is not None:
                    return
                alarm = stored.model_copy(update={"closed_at": alarm.closed_at})
            words = f"{change.why}: {alarm.words}"
            line = Line("drift_closed", ACTOR, words, _device(alarm))
        drift_rows.put(connection, [alarm])
        self.log(connection, now, line)


def _with_rollout(connection: Connection, alarm: Alarm) -> Alarm:
    """An alarm about a version names the rollout that brought it, where there was one."""
    if alarm.cause is not Cause.MODEL:
        return alarm
    scope = alarm.scope
    for view in rollout_rows.views(connection, None):
        subject = view.spec.subject
        if (
            isinstance(subject, ModelSubject)
            and (subject.model, subject.version) == (scope.model, scope.version)
            and (scope.kind != "group" or view.spec.group == scope.name)
        ):
            command = runbook.command(alarm.kind, alarm.cause, scope, alarm.devices, view.id)
            return alarm.model_copy(update={"command": command})
    return alarm


def _device(alarm: Alarm) -> str | None:
    return alarm.scope.name if alarm.scope.kind == "device" else None


def _known(connection: Connection, alarm: str) -> Alarm:
    if (found := drift_rows.alarm(connection, alarm)) is None:
        raise Unknown(f"there is no alarm {shown(alarm)}")
    return found
