"""What the fleet knows, read without changing anything."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from cloud.fleet.bounds import is_device, is_name, shown
from cloud.fleet.documents import (
    Certificate,
    Device,
    EnrolmentToken,
    FleetEvent,
    Group,
    Profile,
)
from cloud.fleet.part import Part, checked_after, known_group, limited
from cloud.fleet.selector import Facts
from cloud.fleet.selector_parser import parse
from cloud.fleet.store import device_rows, event_rows, group_rows, identity_rows
from shared.errors import Malformed, Unknown

T = TypeVar("T")
_FACTS_AT_ONCE = 2_000


class Reading(Part):
    """Each call is one consistent view. Raises `Unknown`, `Malformed`, `Unavailable`."""

    def device(self, device: str) -> Device:
        return self._read_one(
            lambda c: (
                self._documents(c, [device])[0]
                if is_device(device) and device_rows.row_of(c, device) is not None
                else None
            ),
            f"device {shown(device)}",
        )

    def devices(
        self, selector: str = "", after: str = "", limit: int = 1000
    ) -> tuple[list[Device], str | None]:
        """Those that the selector takes, in the order of ids from the one after `after`; and after
        which one to go on, None at the end.
        """
        test, limit = parse(selector).test(), limited(limit)
        checked_after(after)

        def look(connection: Connection) -> tuple[list[Device], str | None]:
            found: list[str] = []
            at = after
            while len(found) <= limit:
                page = list(device_rows.facts(connection, None, at, _FACTS_AT_ONCE))
                found += [facts.id for facts, _ in page if test(facts)]
                if len(page) < _FACTS_AT_ONCE:
                    break
                at = page[-1][0].id
            more = len(found) > limit
            chosen = found[:limit]
            return self._documents(connection, chosen), chosen[-1] if more else None

        return self._database.read(look)

    def facts(self, selector: str = "", group: str | None = None) -> list[Facts]:
        """Of all that the selector takes, in the order of ids; None: in every group."""
        test = parse(selector).test()
        return self._database.read(
            lambda c: [facts for facts, _ in device_rows.facts(c, group) if test(facts)]
        )

    def ids(self, selector: str = "", group: str | None = None) -> list[str]:
        """As `facts`. 100,000 devices take under a second."""
        return [facts.id for facts in self.facts(selector, group)]

    def counts(self) -> tuple[int, int]:
        """Devices, and those of them that are online."""
        return self._database.read(lambda c: (device_rows.count(c), device_rows.online_count(c)))

    def groups(self) -> list[Group]:
        return self._database.read(group_rows.groups)

    def group(self, name: str) -> Group:
        return self._database.read(lambda c: known_group(c, name))

    def group_of(self, device: str) -> str:
        """Its name."""
        return self._read_one(
            lambda c: (
                str(row.group_name)
                if is_device(device) and (row := device_rows.row_of(c, device)) is not None
                else None
            ),
            f"device {shown(device)}",
        )

    def profiles(self, name: str | None = None) -> list[Profile]:
        """In the order of names, rising; None: of all names."""
        if name is not None and not is_name(name):
            return []
        return self._database.read(lambda c: group_rows.profiles(c, name))

    def profile(self, name: str, version: int) -> Profile:
        return self._read_one(
            lambda c: group_rows.profile(c, name, version) if is_name(name) else None,
            f"profile {shown(name)} {version}",
        )

    def tokens(self) -> list[EnrolmentToken]:
        """The oldest first, used ones too until their time is over."""
        return self._database.read(identity_rows.tokens)

    def certificate(self, serial: str) -> tuple[str, Certificate] | None:
        """With the device that it was issued for; `serial` in lower hex without leading zeros."""
        if not (serial.isascii() and serial.isalnum()):
            return None
        return self._database.read(lambda c: identity_rows.certificate(c, serial))

    def revoked_serials(self) -> dict[str, float]:
        """When each was revoked, as `DeviceCa.crl` takes it."""
        return self._database.read(identity_rows.revoked_serials)

    def events(
        self, after: int, limit: int, device: str | None = None, rollout: str | None = None
    ) -> list[FleetEvent]:
        """Rising from the event after `after`; None: of all. Old ones are gone (`events_max`)."""
        if not 0 <= after < 2**63:
            raise Malformed(f"after is {after}; give the number of an event")
        limit = limited(limit)
        for what, text in (("device", device), ("rollout", rollout)):
            if text is not None and not is_device(text[:64]):
                raise Unknown(f"there is no {what} {shown(text)}")
        return self._database.read(lambda c: event_rows.events(c, after, limit, device, rollout))

    def head(self) -> int:
        """Number of the newest event; 0: there is none."""
        return self._database.read(event_rows.head)

    def _documents(self, connection: Connection, devices: list[str]) -> list[Device]:
        return device_rows.documents(connection, devices, self._settings.presence.window_s)

    def _read_one(self, look: Callable[[Connection], T | None], what: str) -> T:
        if (found := self._database.read(look)) is None:
            raise Unknown(f"there is no {what}")
        return found
