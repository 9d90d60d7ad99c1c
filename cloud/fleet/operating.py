"""What operators do to devices."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row, delete

from cloud.fleet.bounds import checked_actor, checked_labels, checked_words
from cloud.fleet.documents import Device
from cloud.fleet.part import Part, device_row, grouping_of, in_words, regroup
from cloud.fleet.store import device_rows, identity_rows
from cloud.fleet.store import schema as s
from cloud.fleet.store.event_rows import Line
from shared.errors import Malformed


class Operating(Part):
    """Each call is one transaction with its line in the log, and gives the device as it then is.

    Raises `Unknown`, `Malformed`, `Unavailable`; `Conflict` where `revision` is given and the
    device is of another, or its state does not allow it.
    """

    def label(
        self, device: str, labels: dict[str, str], actor: str, now: float,
        revision: int | None = None,
    ) -> Device:  # fmt: skip
        """Give it these labels instead of those that it has. They may move it to another group,
        which is refused in the middle of a rollout.
        """
        new = checked_labels(labels, self._settings.labels_max)

        def change(connection: Connection, row: Row[*tuple[Any, ...]]) -> Line | None:
            if dict(device_rows.labels_of(row.labels)) == new:
                return None
            self._set(connection, row, labels=device_rows.labels_text(new))
            changed = device_row(connection, device)
            facts = device_rows.facts_of(changed)
            regroup(connection, [(facts, changed.group_name)], grouping_of(connection))
            return Line("labels", actor, f"labels are now {in_words(new)}", device)

        return self._change(device, actor, now, revision, change)

    def quarantine(
        self, device: str, why: str, until: float | None, actor: str, now: float,
        revision: int | None = None,
    ) -> Device:  # fmt: skip
        """Keep it out of rollouts; None: until `end_quarantine`."""
        checked_words(why, "the comment")
        if until is not None and not now < until < now + 10 * 365 * 86_400:
            raise Malformed(f"until is {until:.0f}; name a time to come, or none")

        def change(connection: Connection, row: Row[*tuple[Any, ...]]) -> Line:
            self._set(
                connection, row, quarantined_at=now, quarantined_until=until, quarantine_why=why
            )
            return Line("quarantined", actor, why or "without a reason", device)

        return self._change(device, actor, now, revision, change)

    def end_quarantine(
        self, device: str, why: str, actor: str, now: float, revision: int | None = None
    ) -> Device:
        checked_words(why, "the comment")

        def change(connection: Connection, row: Row[*tuple[Any, ...]]) -> Line | None:
            if row.quarantined_at is None:
                return None
            self._set(
                connection, row, quarantined_at=None, quarantined_until=None, quarantine_why=""
            )
            return Line("quarantine_ended", actor, why or "without a reason", device)

        return self._change(device, actor, now, revision, change)

    def revoke(
        self, device: str, why: str, actor: str, now: float, revision: int | None = None
    ) -> Device:
        """Its certificates are worth nothing from now on, and what it says is not heard. A new
        token made for it by name lets it in again.
        """
        checked_words(why, "the comment")

        def change(connection: Connection, row: Row[*tuple[Any, ...]]) -> Line | None:
            count = identity_rows.revoke_certificates(connection, device, why, now)
            if row.revoked_at is not None and not count:
                return None
            self._set(connection, row, revoked_at=now, online=False, online_since=now)
            return Line(
                "revoked", actor, f"with {count} certificates: {why or 'no reason'}", device
            )

        return self._change(device, actor, now, revision, change)

    def remove(
        self, device: str, actor: str, now: float, revision: int | None = None, why: str = ""
    ) -> None:
        """Forget it, and revoke its certificates. Its retained messages are the broker's: whoever
        publishes desired state clears them.
        """
        checked_actor(actor)
        checked_words(why, "the comment")

        def change(connection: Connection) -> None:
            device_row(connection, device, revision)
            count = identity_rows.revoke_certificates(connection, device, "removed", now)
            connection.execute(delete(s.desired).where(s.desired.c.device == device))
            connection.execute(delete(s.devices).where(s.devices.c.id == device))
            words = f"with {count} certificates: {why or 'no reason'}"
            self.log(connection, now, Line("removed", actor, words, device))

        self._database.write(change)

    def _change(
        self,
        device: str,
        actor: str,
        now: float,
        revision: int | None,
        change: Callable[[Connection, Row[*tuple[Any, ...]]], Line | None],
    ) -> Device:
        """`change` gives the line for the log; None: all is so already."""
        checked_actor(actor)

        def whole(connection: Connection) -> Device:
            line = change(connection, device_row(connection, device, revision))
            if line is not None:
                self.log(connection, now, line)
            window_s = self._settings.presence.window_s
            return device_rows.documents(connection, [device], window_s)[0]

        return self._database.write(whole)

    def _set(self, connection: Connection, row: Row[*tuple[Any, ...]], **values: object) -> None:
        connection.execute(
            s.devices.update()
            .where(s.devices.c.id == row.id)
            .values(revision=row.revision + 1, unsettled=True, **values)
        )
