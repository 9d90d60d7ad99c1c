"""Routes: data sets that are made of the feedback store."""

import asyncio
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of
from cloud.api.kept_turns import in_thread, to_its_end
from cloud.api.middleware import IDENTITY, caller_of
from cloud.api.routes import Query, Route, document, done, listing
from cloud.api.turns import Turns
from cloud.feedback.api import schemas
from cloud.feedback.documents import (
    DataSetPlan,
    DataSetSpec,
    DataSetVersion,
    ListedDataSet,
)
from cloud.feedback.store import FeedbackStore
from cloud.gateway.roles import Role
from shared.errors import Malformed

_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_BUSY: Final = HTTPStatus.TOO_MANY_REQUESTS
_PATH: Final = "/v1/data-sets/{name}"
_ONE: Final = _PATH + "/{number}"
_COMMENT_MAX: Final = 500
_PLANS_MAX: Final = 2
"""Each looks through every sample of a model, a second or two of a core."""
_FILES_MAX: Final = 4
"""Each in memory until the last of it is sent."""
_PIECE_BYTES: Final = 256 * 1024


class DataSetRoutes:
    def __init__(
        self, store: FeedbackStore, asking: Asking, now: Callable[[], float],
        reader: Callable[[str], str] = lambda _: "",
    ) -> None:  # fmt: skip
        """`now` gives Unix seconds. `reader` says who has yet to read a file of that hash, in words."""
        self._reader = reader
        self._store, self._asking, self._now = store, asking, now
        self._plans, self._files = Turns("plans", _PLANS_MAX), Turns("files", _FILES_MAX)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/data-sets", self._list,
            "Every version of every data set, without the devices that it names", Role.VIEWER,
            {_OK: schemas.DataSets},
        )  # fmt: skip
        yield Route(
            "POST", "/v1/data-sets/plan", self._plan, "What a data set would hold; makes nothing",
            Role.TRAINER, {_OK: DataSetPlan}, takes=DataSetSpec, problems=(_BUSY,),
        )  # fmt: skip
        yield Route(
            "POST", _PATH, self._build,
            "Make a data set's next version; where nothing has changed, it is the present one",
            Role.TRAINER, {_OK: DataSetVersion}, takes=DataSetSpec,
            problems=(_CONFLICT, _BUSY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._newest, "A data set's newest version", Role.VIEWER,
            {_OK: DataSetVersion}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _ONE, self._get, "One version of a data set", Role.VIEWER,
            {_OK: DataSetVersion}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _ONE + "/file", self._file, "Its samples, as a zip of NPY files (.npz)",
            Role.TRAINER, {_OK: "application/octet-stream"}, problems=(_MISSING, _BUSY),
        )  # fmt: skip
        yield Route(
            "DELETE", _ONE, self._delete, "Forget a version, and its file where no other has it",
            Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING, _CONFLICT),
            queries=(Query("comment"),),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        found = await asyncio.to_thread(
            lambda: [ListedDataSet.of(one) for one in self._store.data_sets()]
        )
        return await listing("data_sets", found)

    async def _plan(self, request: web.Request) -> web.Response:
        spec = await self._asking.read(request, DataSetSpec)
        return document(
            await in_thread(self._plans, caller_of(request), lambda: self._store.plan(spec))
        )

    async def _build(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        spec = await self._asking.read(request, DataSetSpec)
        made = await asyncio.to_thread(
            self._store.build, name, spec, actor_of(request), self._now()
        )
        return document(made)

    async def _newest(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return document(await asyncio.to_thread(self._store.data_set, name))

    async def _get(self, request: web.Request) -> web.Response:
        return document(await asyncio.to_thread(self._store.data_set, *_named(request)))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return await to_its_end(self._files, caller_of(request), lambda: self._sent(request))

    async def _sent(self, request: web.Request) -> web.StreamResponse:
        """All of it is out at the end: what a handler gives back is sent after its turn is over."""

        def read() -> tuple[DataSetVersion, bytes]:
            made = self._store.data_set(*_named(request))
            return made, self._store.verified(made.sha256)

        made, content = await asyncio.to_thread(read)
        name = f"{made.name}-{made.number}.npz"
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/octet-stream", "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "Content-Disposition": f'attachment; filename="{name}"', **request[IDENTITY].headers,
            },
        )  # fmt: skip
        response.content_length = len(content)
        await response.prepare(request)
        if request.method != "HEAD":
            for start in range(0, len(content), _PIECE_BYTES):
                await response.write(content[start : start + _PIECE_BYTES])
        await response.write_eof()
        return response

    async def _delete(self, request: web.Request) -> web.Response:
        comment = request[QUERY].get("comment", "")
        if len(comment) > _COMMENT_MAX:
            raise Malformed(f"comment: {len(comment)} characters; at most {_COMMENT_MAX}")
        await asyncio.to_thread(
            self._store.delete_data_set, *_named(request), actor_of(request), self._now(), comment,
            self._reader,
        )  # fmt: skip
        return done()


def _named(request: web.Request) -> tuple[str, int]:
    return request.match_info["name"], int(request.match_info["number"])
