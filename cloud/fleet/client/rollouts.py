"""A fleet's rollouts: drafts, commands, and watching one."""

from collections.abc import Mapping
from typing import Final, Literal

from cloud.fleet.client.pages import RolloutDevicePage
from cloud.fleet.client.reading import many, one, read
from cloud.fleet.client.settings import FleetClientSettings
from cloud.fleet.documents import FleetEvent
from cloud.registry.client.answers import parsed
from cloud.registry.client.connection import Connection, quoted
from cloud.rollouts.documents import DeviceInRollout, RolloutPlan, RolloutView

_LINES_MAX: Final = 1000  # of one page, as the API has it
Verb = Literal["start", "pause", "resume", "approve", "skip", "abort", "undo", "retry"]


class Rollouts:
    """Of one `FleetClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: FleetClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def plan(self, spec: Mapping[str, object]) -> RolloutPlan:
        """Which devices would move when. `spec`: as `RolloutSpec`, without hashes; makes nothing."""
        path = "/v1/rollouts/plan"
        found = await self._connection.json("POST", path, document=dict(spec), is_repeatable=True)
        return read(RolloutPlan, found, path)

    async def create(self, spec: Mapping[str, object]) -> RolloutView:
        """A draft: nothing moves before `start`."""
        return await one(self._connection, RolloutView, "POST", "/v1/rollouts", dict(spec))

    async def all(self, status: str | None = None) -> list[RolloutView]:
        return await many(
            self._connection, RolloutView, "rollouts", "/v1/rollouts", {"status": status}
        )

    async def get(self, rollout: str) -> RolloutView:
        return await one(self._connection, RolloutView, "GET", _rollout(rollout))

    async def tell(self, verb: Verb, rollout: str, comment: str, revision: int) -> RolloutView:
        """An operator's command on what was seen as `revision`."""
        path = f"{_rollout(rollout)}/{verb}"
        return await one(
            self._connection, RolloutView, "POST", path, {"comment": comment}, revision
        )

    async def devices(
        self, rollout: str, phase: str | None = None, at_most: int = 1000
    ) -> list[DeviceInRollout]:
        """In the order of their names, page by page."""
        path = f"{_rollout(rollout)}/devices"
        found: list[DeviceInRollout] = []
        after: str | None = None
        while True:
            limit = min(self._settings.page, at_most - len(found))
            query = {"phase": phase, "after": after, "limit": limit}
            page = read(
                RolloutDevicePage, await self._connection.json("GET", path, query=query), path
            )
            found += page.devices
            ends = page.next is None or not page.devices
            if ends or len(found) >= at_most or (after is not None and str(page.next) <= after):
                return found[:at_most]
            after = page.next

    async def history(self, rollout: str) -> list[FleetEvent]:
        """Who and what did what to it, the oldest first, page by page."""
        path, limit = f"{_rollout(rollout)}/history", min(self._settings.page, _LINES_MAX)
        found: list[FleetEvent] = []
        while True:
            query = {"after": found[-1].seq if found else None, "limit": limit}
            page = await many(self._connection, FleetEvent, "events", path, query)
            if found and page and page[-1].seq <= found[-1].seq:
                return found  # numbers rise: an answer that goes round ends here
            found += page
            if len(page) < limit:
                return found

    async def changed(self, rollout: str, seen: str | None) -> tuple[RolloutView, str | None]:
        """The rollout once it differs from what was `seen`, or after `wait_s` as it is.

        Returns it with what to give as `seen` next.
        """
        path = f"{_rollout(rollout)}/watch"
        query = {"revision": seen, "wait_s": None if seen is None else self._settings.wait_s}
        answer = await self._connection.call("GET", path, query=query)
        view = read(RolloutView, parsed(answer, path, "fleet"), path)
        tag = answer.headers.get("etag", "").strip().removeprefix("W/").strip('"')
        return view, tag or str(view.revision)


def _rollout(rollout: str) -> str:
    return f"/v1/rollouts/{quoted(rollout)}"
