"""Routes: groups and device profiles."""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import Asking, actor_of, revision_of
from cloud.api.routes import Query, Route, document, done, revised
from cloud.fleet.api import schemas
from cloud.fleet.api.devices import comment_of
from cloud.fleet.control import Control
from cloud.fleet.documents import Baseline, Group, Profile, ProfileRef
from cloud.gateway.roles import Role

_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_GROUP, _PROFILE = "/v1/groups/{group}", "/v1/profiles/{profile}"


class GroupRoutes:
    def __init__(self, control: Control, asking: Asking) -> None:
        self._control, self._fleet, self._asking = control, control.fleet, asking

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/groups", self._list, "Every group", Role.VIEWER, {_OK: schemas.Groups}
        )
        yield Route(
            "GET", _GROUP, self._get, "A group: whom it takes, and what they have", Role.VIEWER,
            {_OK: Group}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", _GROUP, self._put, "Make a group (If-Match 0 or none), or change whom it takes",
            Role.OPERATOR, {_OK: Group}, takes=schemas.GroupRequest, problems=(_CONFLICT,),
        )  # fmt: skip
        yield Route(
            "DELETE", _GROUP, self._remove, "Remove a group; its devices go to others",
            Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""}, problems=(_MISSING, _CONFLICT),
            queries=(Query("comment"),),
        )  # fmt: skip
        yield Route(
            "PUT", _GROUP + "/baseline/{model}", self._set_baseline,
            "Say which version its devices have, without a rollout's evidence", Role.OPERATOR,
            {_OK: Group}, takes=schemas.BaselineRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "PUT", _GROUP + "/profile", self._set_profile,
            "Say which profile its devices have, without a rollout's evidence", Role.OPERATOR,
            {_OK: Group}, takes=schemas.ProfileRefRequest, problems=(_MISSING, _CONFLICT),
        )  # fmt: skip
        yield Route(
            "GET", "/v1/profiles", self._profiles, "Every version of every device profile",
            Role.VIEWER, {_OK: schemas.Profiles},
        )  # fmt: skip
        yield Route(
            "GET", _PROFILE, self._profiles, "A device profile's versions", Role.VIEWER,
            {_OK: schemas.Profiles}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PROFILE + "/{number}", self._profile, "A version of a device profile",
            Role.VIEWER, {_OK: Profile}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", _PROFILE + "/{number}", self._push,
            "Add a version; the same again changes nothing", Role.OPERATOR, {_OK: Profile},
            takes=schemas.ProfileRequest, problems=(_CONFLICT,),
        )  # fmt: skip

    async def _list(self, _: web.Request) -> web.Response:
        groups = await asyncio.to_thread(self._fleet.groups)
        return document(schemas.Groups(groups=tuple(groups)))

    async def _get(self, request: web.Request) -> web.Response:
        return revised(await self._group(request))

    async def _put(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.GroupRequest)
        group = Group(
            name=request.match_info["group"], selector=asked.selector, priority=asked.priority,
        )  # fmt: skip
        await self._control.change(
            self._fleet.put_group, group, actor_of(request), self._control.now(), revision
        )
        return revised(await self._group(request))

    async def _remove(self, request: web.Request) -> web.Response:
        revision, comment = revision_of(request), comment_of(request)
        name = request.match_info["group"]
        await self._control.change(
            self._fleet.remove_group,
            name,
            actor_of(request),
            self._control.now(),
            revision,
            comment,
        )
        return done()

    async def _set_baseline(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.BaselineRequest)
        name, model = request.match_info["group"], request.match_info["model"]
        sha256 = asked.manifest_sha256 or await self._control.released(model, asked.version)
        baseline = Baseline(version=asked.version, manifest_sha256=sha256)
        await self._control.change(
            self._fleet.set_baseline, name, model, baseline, actor_of(request),
            self._control.now(), revision,
        )  # fmt: skip
        return revised(await self._group(request))

    async def _set_profile(self, request: web.Request) -> web.Response:
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.ProfileRefRequest)
        reference = ProfileRef(name=asked.name, version=asked.version)
        name = request.match_info["group"]
        await self._control.change(
            self._fleet.set_group_profile, name, reference, actor_of(request),
            self._control.now(), revision,
        )  # fmt: skip
        return revised(await self._group(request))

    async def _profiles(self, request: web.Request) -> web.Response:
        name = request.match_info.get("profile")
        found = await asyncio.to_thread(self._fleet.profiles, name)
        return document(schemas.Profiles(profiles=tuple(found)))

    async def _profile(self, request: web.Request) -> web.Response:
        name, number = request.match_info["profile"], int(request.match_info["number"])
        return document(await asyncio.to_thread(self._fleet.profile, name, number))

    async def _push(self, request: web.Request) -> web.Response:
        asked = await self._asking.read(request, schemas.ProfileRequest)
        name, number = request.match_info["profile"], int(request.match_info["number"])
        await self._control.change(
            self._fleet.push_profile, name, number, asked.settings, actor_of(request),
            self._control.now(),
        )  # fmt: skip
        return document(await asyncio.to_thread(self._fleet.profile, name, number))

    async def _group(self, request: web.Request) -> Group:
        return await asyncio.to_thread(self._fleet.group, request.match_info["group"])
