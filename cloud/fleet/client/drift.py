"""A fleet's drift: figures by scope, and alarms."""

from typing import Final

from pydantic import BaseModel, ConfigDict

from cloud.fleet.client.reading import one, read
from cloud.fleet.client.settings import FleetClientSettings
from cloud.monitoring.drift.documents import Alarm, DriftState, ScopeState
from cloud.registry.client.connection import Connection, quoted

_PATH: Final = "/v1/drift"
_PAGE_MAX: Final = 1000  # as the API has it
Query = dict[str, str | int | float | None]


class _AlarmPage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    alarms: tuple[Alarm, ...]
    next: str | None = None


class Drift:
    """Of one `FleetClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: FleetClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def state(
        self,
        kind: str | None = None,
        name: str | None = None,
        model: str | None = None,
        at_most: int = 1000,
    ) -> DriftState:
        """Windows of that kind of scope (device, group, fleet), page by page, and the alarms that
        are on.
        """
        scopes: list[ScopeState] = []
        after: str | None = None
        while True:
            limit = min(self._settings.page, _PAGE_MAX, at_most - len(scopes))
            query: Query = {
                "kind": kind, "name": name, "model": model, "after": after, "limit": limit,
            }  # fmt: skip
            found = await self._connection.json("GET", _PATH, query=query)
            page = read(DriftState, found, _PATH)
            scopes += page.scopes
            ends = page.next is None or not page.scopes or page.next == after
            if ends or len(scopes) >= at_most:
                return page.model_copy(update={"scopes": tuple(scopes), "next": page.next})
            after = page.next

    async def alarms(self, *, on: bool | None = True, at_most: int = 1000) -> list[Alarm]:
        """The newest first, page by page; `on`: None takes those that are over, too."""
        path, alarms = f"{_PATH}/alarms", list[Alarm]()
        after: str | None = None
        while True:
            limit = min(self._settings.page, _PAGE_MAX, at_most - len(alarms))
            query: Query = {
                "on": None if on is None else str(on).lower(), "after": after, "limit": limit,
            }  # fmt: skip
            page = read(_AlarmPage, await self._connection.json("GET", path, query=query), path)
            alarms += page.alarms
            ends = page.next is None or not page.alarms or page.next == after
            if ends or len(alarms) >= at_most:
                return alarms
            after = page.next

    async def alarm(self, alarm: str) -> Alarm:
        return await one(self._connection, Alarm, "GET", _alarm(alarm))

    async def seen(self, alarm: str, comment: str) -> Alarm:
        """Acknowledge it: somebody looks after it."""
        return await one(
            self._connection, Alarm, "POST", f"{_alarm(alarm)}/seen", {"comment": comment}
        )


def _alarm(alarm: str) -> str:
    return f"{_PATH}/alarms/{quoted(alarm)}"
