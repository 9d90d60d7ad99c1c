"""Updates of the model: where they stand, and what an operator on the device may ask."""

from typing import Protocol, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from edge.api import bodies
from edge.api.settings import Limits
from edge.updates.status import UpdateStatus
from shared.bundle.manifest import Version
from shared.config import in_words
from shared.errors import Malformed, Unknown


class Updating(Protocol):
    """What is asked of `edge.updates.updates.Updates`."""

    def status(self) -> UpdateStatus: ...

    def request_check(self, *, retry: bool = False) -> None: ...

    async def release_hold(self) -> None: ...

    async def rollback(self, version: str | None = None) -> UpdateStatus: ...


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


B = TypeVar("B", bound=_Body)


class Check(_Body):
    """`retry`: what was refused gets another try."""

    retry: bool = False


class Rollback(_Body):
    """None: to the newest version that is kept."""

    version: Version | None = None


class UpdateRoutes:
    def __init__(self, updates: Updating | None, limits: Limits) -> None:
        """None: this agent takes no updates, and says so."""
        self._updates, self._limits = updates, limits

    def add_to(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/updates", self._status)
        router.add_post("/v1/updates/check", self._check)
        router.add_post("/v1/updates/rollback", self._rollback)
        router.add_post("/v1/updates/resume", self._resume)

    async def _status(self, _: web.Request) -> web.Response:
        return _document(self._there().status())

    async def _check(self, request: web.Request) -> web.Response:
        updates = self._there()
        updates.request_check(retry=(await self._read(request, Check)).retry)
        return _document(updates.status(), 202)

    async def _rollback(self, request: web.Request) -> web.Response:
        updates = self._there()
        return _document(await updates.rollback((await self._read(request, Rollback)).version))

    async def _resume(self, request: web.Request) -> web.Response:
        """After a rollback: newer versions may come again."""
        updates = self._there()
        await self._read(request, _Body)
        await updates.release_hold()
        return _document(updates.status())

    def _there(self) -> Updating:
        if self._updates is None:
            raise Unknown("this agent takes no updates; add [updates] to its settings")
        return self._updates

    async def _read(self, request: web.Request, kind: type[B]) -> B:
        content = await bodies.read(request, self._limits)
        try:
            return kind.model_validate_json(content or b"{}")
        except ValidationError as error:
            raise Malformed(in_words(error)) from error


def _document(status: UpdateStatus, code: int = 200) -> web.Response:
    return web.Response(
        body=status.model_dump_json().encode(), status=code, content_type="application/json"
    )
