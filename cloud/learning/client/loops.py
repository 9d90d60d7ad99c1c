"""Loops and their cycles: settings, a person's word, and watching."""

from typing import Final

from cloud.fleet.client.reading import many, one, read
from cloud.learning.client.pages import CycleLine
from cloud.learning.client.settings import LearningClientSettings
from cloud.learning.documents import Cycle, Decision, FeatureCheck, Loop, LoopSettings, Refit
from cloud.registry.client.answers import parsed
from cloud.registry.client.connection import Connection, quoted

_CYCLES_MAX: Final = 10_000  # read of one loop


class Loops:
    """Of one `LearningClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: LearningClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def all(self) -> list[Loop]:
        return await many(self._connection, Loop, "loops", "/v1/loops")

    async def get(self, model: str) -> Loop:
        return await one(self._connection, Loop, "GET", _loop(model))

    async def put(self, settings: LoopSettings, revision: int | None = None) -> Loop:
        """Make it (revision 0) or change it. `Conflict` when `revision` is not what is there."""
        # in order, so that the same settings are the same bytes
        document = settings.model_dump(mode="json", exclude_none=True)
        document["asks"] = sorted(settings.asks)
        return await one(self._connection, Loop, "PUT", _loop(settings.model), document, revision)

    async def delete(self, model: str, revision: int | None = None) -> None:
        await self._connection.json("DELETE", _loop(model), revision=revision, is_repeatable=False)

    async def cycles(self, model: str, at_most: int = 100) -> list[Cycle]:
        """The newest first, page by page."""
        path, found = f"{_loop(model)}/cycles", list[Cycle]()
        most = min(at_most, _CYCLES_MAX)
        while True:
            limit = min(self._settings.page, most - len(found))
            query: dict[str, str | int | float | None] = {
                "after": found[-1].id if found else None, "limit": limit,
            }  # fmt: skip
            page = await many(self._connection, Cycle, "cycles", path, query)
            known = {one.id for one in found}
            fresh = [one for one in page if one.id not in known]
            found += fresh
            if len(page) < limit or not fresh or len(found) >= most:
                return found

    async def begin(self, model: str, comment: str) -> Cycle:
        """Now, whatever the triggers say. `Conflict` while one runs."""
        path = f"{_loop(model)}/begin"
        return await one(self._connection, Cycle, "POST", path, {"comment": comment})

    async def cycle(self, cycle: str) -> Cycle:
        return await one(self._connection, Cycle, "GET", _cycle(cycle))

    async def changed(self, cycle: str, seen: int | None) -> Cycle:
        """The cycle once its revision is not `seen`, or after `wait_s` as it is."""
        path = _cycle(cycle)
        query = {"revision": seen, "wait_s": None if seen is None else self._settings.wait_s}
        answer = await self._connection.call("GET", path, query=query)
        return read(Cycle, parsed(answer, path, "learning process"), path)

    async def log(self, cycle: str) -> list[CycleLine]:
        """What happened to it, the oldest first."""
        return await many(self._connection, CycleLine, "lines", f"{_cycle(cycle)}/log")

    async def decide(self, cycle: str, decision: Decision, revision: int | None = None) -> Cycle:
        """A person's word. `Conflict` when the cycle has moved on since `revision`."""
        document = decision.model_dump(mode="json")
        return await one(
            self._connection, Cycle, "POST", f"{_cycle(cycle)}/decide", document, revision
        )

    async def refit(self, model: str) -> Refit:
        """What the threshold would be; changes nothing."""
        return await one(self._connection, Refit, "GET", f"{_loop(model)}/refit")

    async def apply_refit(self, model: str, comment: str) -> Refit:
        path = f"{_loop(model)}/refit"
        return await one(self._connection, Refit, "POST", path, {"comment": comment})

    async def checks(self) -> list[FeatureCheck]:
        """The newest of each model: training's preprocessing against serving's."""
        return await many(self._connection, FeatureCheck, "checks", "/v1/checks")

    async def check(self, model: str) -> FeatureCheck:
        """Now."""
        return await one(self._connection, FeatureCheck, "POST", f"/v1/checks/{quoted(model)}")


def _loop(model: str) -> str:
    return f"/v1/loops/{quoted(model)}"


def _cycle(cycle: str) -> str:
    return f"/v1/cycles/{quoted(cycle)}"
