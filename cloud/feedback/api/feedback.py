"""Routes: samples that came back, and what people say they show."""

import asyncio
import io
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

import numpy as np
from aiohttp import web

from cloud.api.asking import QUERY, Asking, actor_of, number_of
from cloud.api.kept_turns import in_thread
from cloud.api.middleware import caller_of
from cloud.api.routes import Route, document
from cloud.api.turns import Turns
from cloud.feedback.api import schemas
from cloud.feedback.api.images import png
from cloud.feedback.api.queries import ACCURACY, QUERIES, sample_query, whose
from cloud.feedback.documents import Deleted, Deletion, FeedbackSample, FeedbackState
from cloud.feedback.store import FeedbackStore
from cloud.gateway.roles import Role
from shared.errors import Conflict, Overloaded
from shared.ids import SampleId, sample_id

_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND
_PATH: Final = "/v1/feedback/samples/{device}/{sample}"
_SEARCHES_MAX: Final = 8
"""Searches at once; each may look through the whole index, half a second of a core."""
_PRIVATE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class FeedbackRoutes:
    def __init__(self, store: FeedbackStore, asking: Asking, now: Callable[[], float]) -> None:
        """`now` gives Unix seconds."""
        self._store, self._asking, self._now = store, asking, now
        self._searches = Turns("searches", _SEARCHES_MAX)
        self._deletes = asyncio.Lock()

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/feedback", self._state, "The feedback store in figures", Role.VIEWER,
            {_OK: FeedbackState},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/feedback/samples", self._list,
            "Samples, the newest first, of which every condition holds", Role.LABELLER,
            {_OK: schemas.SampleList}, problems=(HTTPStatus.TOO_MANY_REQUESTS,), queries=QUERIES,
        )  # fmt: skip
        yield Route(
            "GET", "/v1/feedback/accuracy", self._accuracy,
            "How many answers of the edge (or `of` the cloud) are right, by what people labelled",
            Role.VIEWER, {_OK: schemas.Accuracy}, queries=ACCURACY,
            problems=(HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._get, "What is known of a sample", Role.LABELLER,
            {_OK: FeedbackSample}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/tensor", self._tensor, "A sample as the model takes it, in NPY format",
            Role.LABELLER, {_OK: "application/octet-stream"}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PATH + "/image", self._image, "A sample as people see it", Role.LABELLER,
            {_OK: "image/png"}, problems=(_MISSING, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        )  # fmt: skip
        yield Route(
            "PUT", _PATH + "/label", self._label,
            "Say what a sample shows; it replaces one's own earlier word", Role.LABELLER,
            {_OK: FeedbackSample}, takes=schemas.LabelRequest,
            problems=(_MISSING, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        )  # fmt: skip
        yield Route(
            "DELETE", _PATH + "/label", self._unlabel, "Take back one's own word", Role.LABELLER,
            {_OK: FeedbackSample}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "POST", "/v1/feedback/delete", self._delete,
            "Delete samples by device and time; the log keeps who, when, how much and why",
            Role.OPERATOR, {_OK: Deleted}, takes=Deletion,
            problems=(HTTPStatus.TOO_MANY_REQUESTS,),
        )  # fmt: skip

    async def _state(self, _: web.Request) -> web.Response:
        return document(await asyncio.to_thread(self._store.state))

    async def _list(self, request: web.Request) -> web.Response:
        given = request[QUERY]
        query = sample_query(given)
        after = number_of(request, "after", 0) or None
        limit = number_of(request, "limit", 100)

        def page() -> bytes:
            samples, following = self._store.samples(query, after, limit)
            answer = schemas.SampleList(
                samples=tuple(samples), next=None if following is None else str(following)
            )
            return answer.model_dump_json().encode()  # hundreds take milliseconds

        body = await in_thread(self._searches, caller_of(request), page)
        return web.Response(body=body, content_type="application/json")

    async def _accuracy(self, request: web.Request) -> web.Response:
        asked = request[QUERY]
        query, of = sample_query(asked), whose(asked)
        found = await in_thread(
            self._searches, caller_of(request), lambda: self._store.accuracy(query, of)
        )
        if found is None:
            raise Conflict("nobody labelled any of these samples; label some of them first")
        return document(schemas.Accuracy(
            estimate=found.estimate, low=found.low, high=found.high, labelled=found.labelled,
            audits=found.audits, sent=found.sent,
        ))  # fmt: skip

    async def _get(self, request: web.Request) -> web.Response:
        return document(await asyncio.to_thread(self._store.sample, *_named(request)))

    async def _tensor(self, request: web.Request) -> web.Response:
        device, sample = _named(request)

        def content() -> bytes:
            file = io.BytesIO()
            np.save(file, self._store.tensor(device, sample), allow_pickle=False)
            return file.getvalue()

        return web.Response(
            body=await asyncio.to_thread(content), content_type="application/octet-stream",
            headers=_PRIVATE,
        )  # fmt: skip

    async def _image(self, request: web.Request) -> web.Response:
        device, sample = _named(request)
        pixels_max = self._store.settings.image_pixels_max

        def content() -> bytes:
            return png(self._store.tensor(device, sample), pixels_max)

        return web.Response(
            body=await asyncio.to_thread(content), content_type="image/png", headers=_PRIVATE
        )

    async def _label(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.LabelRequest)
        found = await asyncio.to_thread(
            self._store.label, *_named(request), asked.label, actor_of(request), self._now(),
            asked.comment,
        )  # fmt: skip
        return document(found)

    async def _unlabel(self, request: web.Request) -> web.Response:
        return document(
            await asyncio.to_thread(self._store.unlabel, *_named(request), actor_of(request))
        )

    async def _delete(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, Deletion)
        if self._deletes.locked():
            raise Overloaded("another deletion is under way; one is at a time", 5.0)
        await self._deletes.acquire()
        deleting = asyncio.create_task(
            asyncio.to_thread(self._store.delete, asked, actor_of(request), self._now())
        )
        deleting.add_done_callback(lambda _: self._deletes.release())  # though the caller has left
        return document(await asyncio.shield(deleting))


def _named(request: web.Request) -> tuple[str, SampleId]:
    return request.match_info["device"], sample_id(request.match_info["sample"])
