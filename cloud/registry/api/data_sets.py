"""Routes: labelled evaluation data."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking, actor_of
from cloud.api.routes import Route, document
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.permitting import apply, permit
from cloud.registry.catalog.commands import AddDataSet
from cloud.registry.documents import DataSet, StoredFile
from cloud.registry.evaluation.data_set import parse_data_set
from cloud.registry.registry import Registry
from shared.errors import Malformed

_OK, _MISSING = HTTPStatus.OK, HTTPStatus.NOT_FOUND


class DataSetRoutes:
    def __init__(self, registry: Registry, asking: Asking, data_bytes_max: int) -> None:
        """`data_bytes_max`: of a data set, packed and unpacked; it is read once, to be checked."""
        self._registry, self._asking = registry, asking
        self._data_bytes_max = data_bytes_max
        self._one = asyncio.Lock()  # each is held in memory while it is checked

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/data-sets", self._list, "Every version of every data set", Role.VIEWER,
            {_OK: schemas.DataSets},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/data-sets/{data_set}", self._newest, "A data set's newest version",
            Role.VIEWER, {_OK: DataSet}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/data-sets/{data_set}/{number}", self._get, "One version of a data set",
            Role.VIEWER, {_OK: DataSet}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", "/v1/data-sets/{data_set}/{number}", self._add,
            "Add a data set's next version, whose file is here", Role.TRAINER,
            {_OK: DataSet}, takes=schemas.DataSetRequest,
            problems=(_MISSING, HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        found = await self._registry.read(self._registry.catalog.data_sets)
        return document(schemas.DataSets(data_sets=tuple(found)))

    async def _newest(self, request: web.Request) -> web.Response:
        return document(await self._known(request.match_info["data_set"], None))

    async def _get(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        return document(await self._known(request.match_info["data_set"], number))

    async def _add(self, request: web.Request) -> web.Response:
        permit(request, AddDataSet)
        self._registry.replication.check_writable()
        asked = await self._asking.read(request, schemas.DataSetRequest)
        name, number = request.match_info["data_set"], int(request.match_info["number"])
        where = f"data set {name} {number}"
        async with self._one:
            content = await self._registry.artifacts.read(asked.sha256, self._data_bytes_max)
            if asked.bytes not in {None, len(content)}:
                raise Malformed(f"{where}: {len(content)} bytes are here, not {asked.bytes}")
            data = await asyncio.to_thread(parse_data_set, content, where, self._data_bytes_max)
        if asked.rows not in {None, data.rows}:
            raise Malformed(f"{where}: holds {data.rows} rows, not {asked.rows}")
        file = StoredFile(path=f"{name}.npz", sha256=asked.sha256, bytes=len(content))
        added = DataSet(
            name=name, version=number, file=file, rows=data.rows,
            pushed_by=actor_of(request), pushed_at=self._registry.now(),
        )  # fmt: skip
        await apply(self._registry, request, AddDataSet(added))
        return document(await self._known(name, number))

    async def _known(self, name: str, number: int | None) -> DataSet:
        return await self._registry.read(self._registry.catalog.data_set, name, number)
