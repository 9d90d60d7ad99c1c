"""Rollouts' rows: what a step changed, in one transaction with the orders that follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row

from cloud.fleet.bounds import is_device, shown
from cloud.fleet.desired_state import Desired
from cloud.fleet.documents import Baseline, ProfileRef
from cloud.fleet.group_changes import set_model, set_profile
from cloud.fleet.ordering import order
from cloud.fleet.part import Part, checked_after, known_group, limited, same_revision
from cloud.fleet.store import rollout_rows
from cloud.fleet.store.event_rows import Line
from cloud.rollouts.documents import (
    DeviceInRollout,
    ModelSubject,
    Phase,
    RolloutStatus,
    RolloutView,
)
from cloud.rollouts.events import Note
from shared.errors import Conflict, Malformed, Overloaded, Unknown


@dataclass(frozen=True, slots=True)
class RolloutSave:
    """What steps of one rollout came to."""

    view: RolloutView
    record: bytes
    devices: Sequence[tuple[DeviceInRollout, bytes]] = ()
    """Those that changed, with their records; all of them at the first save."""
    orders: Sequence[tuple[str, Desired]] = ()
    notes: Sequence[Note] = ()
    actor: str = "rollout"
    """Of the notes."""
    sets_baseline: bool = False
    """The group has the rollout's subject from now on."""
    revision: int | None = None
    """That the stored one must have; 0 and not stored is the same. None: whatever it has."""
    replaces_devices: bool = False
    """`devices` are all that it has from now on: a draft that starts with those that are there."""


class RolloutKeeping(Part):
    """Raises `Unknown`, `Conflict`, `Overloaded`, `Unavailable`."""

    def save_rollout(
        self, view: RolloutView, record: bytes,
        devices: Sequence[tuple[DeviceInRollout, bytes]] = (), notes: Sequence[Note] = (),
        now: float = 0.0, orders: Sequence[tuple[str, Desired]] = (), actor: str = "rollout",
        sets_baseline: bool = False, revision: int | None = None,
    ) -> list[tuple[str, Desired]]:  # fmt: skip
        """One of `save_rollouts`."""
        one = RolloutSave(
            view, record, devices, orders, notes, actor, sets_baseline, revision
        )  # fmt: skip
        return self.save_rollouts([one], now)

    def save_rollouts(self, saves: Sequence[RolloutSave], now: float) -> list[tuple[str, Desired]]:
        """All in one transaction, or none; gives the orders that have to be published.

        Raises `Conflict` for a rollout of another revision, for a second active one (running,
        paused, undoing) of the same model (or of any profile) in a group, and for one that takes a device of another active one.
        """

        def change(connection: Connection) -> list[tuple[str, Desired]]:
            return [found for save in saves for found in self._save(connection, save, now)]

        return self._database.write(change)

    def rollouts(self, status: RolloutStatus | str | None = None) -> list[RolloutView]:
        """The newest first; None: of every status."""
        wanted = None if status is None else _one_of(RolloutStatus, status, "status")
        return self._database.read(lambda c: rollout_rows.views(c, wanted))

    def rollout(self, rollout: str) -> RolloutView:
        def look(connection: Connection) -> RolloutView:
            return RolloutView.model_validate_json(_row(connection, rollout).document)

        return self._database.read(look)

    def parks(self, rollout: str) -> bool:
        """It was aborted, or moved some of its group alone, and its devices stay as they are: nobody
        gave the group anything since.
        """
        return self._database.read(lambda c: bool(_row(c, rollout).parks))

    def rollout_record(self, rollout: str) -> bytes:
        def look(connection: Connection) -> bytes:
            _row(connection, rollout)
            return rollout_rows.record(connection, rollout) or b""

        return self._database.read(look)

    def rollout_device_records(self, rollout: str) -> Mapping[str, bytes]:
        """Of all its devices, in the order of their ids."""

        def look(connection: Connection) -> Mapping[str, bytes]:
            _row(connection, rollout)
            return rollout_rows.device_records(connection, rollout)

        return self._database.read(look)

    def rollout_devices(
        self, rollout: str, phase: Phase | str | None = None, after: str = "", limit: int = 1000
    ) -> tuple[list[DeviceInRollout], str | None]:
        """In the order of ids, and after which one to go on, None at the end."""
        limit = limited(limit)
        checked_after(after)
        wanted = None if phase is None else _one_of(Phase, phase, "phase")

        def look(connection: Connection) -> list[DeviceInRollout]:
            _row(connection, rollout)
            return rollout_rows.devices(connection, rollout, wanted, after, limit + 1)

        found = self._database.read(look)
        return found[:limit], found[limit - 1].device if len(found) > limit else None

    def _save(
        self, connection: Connection, save: RolloutSave, now: float
    ) -> list[tuple[str, Desired]]:
        view = save.view
        present = rollout_rows.row_of(connection, view.id)
        self._check(connection, save, present is None)
        was_active = present is not None and present.active
        if present is not None:
            same_revision(present.revision, save.revision, f"rollout {view.id}")
        is_active = rollout_rows.is_active(view)
        newly_aborted = present is not None and present.status != RolloutStatus.ABORTED.value
        parks = (
            view.status is RolloutStatus.ABORTED
            and not is_active
            and (newly_aborted or was_active or (present is not None and present.parks))
        ) or (view.status is RolloutStatus.SUCCEEDED and not save.sets_baseline and was_active)
        rollout_rows.put(connection, view, save.record, parks=parks)
        if save.replaces_devices:
            rollout_rows.remove_devices(connection, view.id)
        rollout_rows.put_devices(connection, view, save.devices, active=is_active and was_active)
        if is_active and not was_active:
            self._check_devices(connection, view)
        if is_active != was_active:
            rollout_rows.set_active(connection, view.id, active=is_active)
        orders = order(connection, save.orders)
        if save.sets_baseline:
            self._set_baseline(connection, save, now)
        if was_active and not is_active:
            rollout_rows.unsettle_devices(connection, view.id)
        lines = [Line(n.kind, save.actor, n.words, n.device, view.id) for n in save.notes]
        self.log(connection, now, *lines)
        return orders

    def _check(self, connection: Connection, save: RolloutSave, is_new: bool) -> None:
        view = save.view
        if is_new:
            known_group(connection, view.spec.group)
            if save.revision not in {None, 0}:
                raise Unknown(f"there is no rollout {view.id}")
            if not rollout_rows.make_room(connection, self._settings.rollouts_max):
                raise Overloaded(
                    f"there are {self._settings.rollouts_max} rollouts that have not ended; end some"
                )
        if not rollout_rows.is_active(view):
            return
        known_group(connection, view.spec.group)
        section, subject = rollout_rows.section_of(view), rollout_rows.subject_of(view)
        for other in rollout_rows.active_in(connection, view.spec.group, section, subject):
            if other != view.id:
                raise Conflict(
                    f"rollout {other} of {subject or 'a profile'} runs in group {view.spec.group}; "
                    "one at a time: wait for it, or abort it"
                )

    def _check_devices(self, connection: Connection, view: RolloutView) -> None:
        section = rollout_rows.section_of(view)
        if found := rollout_rows.held_elsewhere(connection, view.id, section):
            raise Conflict(
                f"device {found.device} is in rollout {found.rollout} already; wait for that, or "
                "leave it out by the selector"
            )

    def _set_baseline(self, connection: Connection, save: RolloutSave, now: float) -> None:
        subject, group = save.view.spec.subject, known_group(connection, save.view.spec.group)
        if isinstance(subject, ModelSubject):
            baseline = Baseline(version=subject.version, manifest_sha256=subject.manifest_sha256)
            set_model(connection, group, subject.model, baseline, self, save.actor, now)
        else:
            ref = ProfileRef(name=subject.name, version=subject.version)
            set_profile(connection, group, ref, self, save.actor, now)


def _one_of(kind: type[StrEnum], text: str, what: str) -> str:
    """Raises `Malformed`."""
    if text not in set(kind):
        raise Malformed(f"{what} is {shown(text)}; there are {', '.join(kind)}")
    return str(text)


def _row(connection: Connection, rollout: str) -> Row[*tuple[Any, ...]]:
    plain = is_device(rollout[:64])
    if not plain or (row := rollout_rows.row_of(connection, rollout)) is None:
        raise Unknown(f"there is no rollout {shown(rollout)}")
    return row
