"""Routes: versions of a model, from their registration to their end."""

from collections.abc import Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api.asking import QUERY, Asking, revision_of
from cloud.api.routes import Query, Route, document, done, revised
from cloud.gateway.roles import Role
from cloud.registry.api import schemas
from cloud.registry.api.permitting import apply, permit
from cloud.registry.catalog.commands import Approve, Delete, QueueEvaluation, Register, Reject
from cloud.registry.documents import Evaluation, ModelVersion, StoredFile
from cloud.registry.registry import Registry
from shared.bundle.files import MANIFEST
from shared.bundle.reader import parse_manifest
from shared.errors import Malformed, Unknown
from shared.new_ids import new_sample_id

MANIFEST_BYTES_MAX = 4 * 1024 * 1024
COMMENT_LENGTH_MAX = 2000
_OK, _MISSING, _CONFLICT = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_CHANGES = (_MISSING, _CONFLICT, HTTPStatus.MISDIRECTED_REQUEST)
_PATH = "/v1/models/{model}/versions/{version}"


class VersionRoutes:
    def __init__(self, registry: Registry, asking: Asking) -> None:
        self._registry, self._asking = registry, asking

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/models/{model}/versions", self._list, "A model's versions, rising",
            Role.VIEWER, {_OK: schemas.Versions}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "GET", _PATH, self._get, "A version: its state, and why", Role.VIEWER,
            {_OK: ModelVersion}, problems=(_MISSING,),
        )  # fmt: skip
        yield Route(
            "PUT", _PATH, self._register,
            "Register a version whose files are all here, and queue its evaluation",
            Role.TRAINER, {HTTPStatus.CREATED: ModelVersion, _OK: ModelVersion},
            takes=schemas.RegisterRequest, problems=_CHANGES,
        )  # fmt: skip
        yield Route(
            "POST", _PATH + "/evaluate", self._evaluate, "Queue an evaluation", Role.VIEWER,
            {HTTPStatus.ACCEPTED: Evaluation}, takes=schemas.Nothing,
            problems=(*_CHANGES, HTTPStatus.TOO_MANY_REQUESTS),
        )  # fmt: skip
        for verb, handler, summary in (
            ("approve", self._approve, "A person's word for a candidate"),
            ("reject", self._reject, "A person's veto: of whatever is not released"),
        ):
            yield Route(
                "POST", f"{_PATH}/{verb}", handler, summary, Role.APPROVER, {_OK: ModelVersion},
                takes=schemas.CommentRequest, problems=_CHANGES,
            )  # fmt: skip
        yield Route(
            "DELETE", _PATH, self._delete,
            "Forget the files of a version that has come to its end; its history stays",
            Role.OPERATOR, {HTTPStatus.NO_CONTENT: ""}, problems=_CHANGES,
            queries=(Query("comment"),),
        )  # fmt: skip

    async def _list(self, request: web.Request) -> web.Response:
        catalog = self._registry.catalog
        versions = await self._registry.read(catalog.versions, request.match_info["model"])
        return document(schemas.Versions(versions=tuple(versions)))

    async def _get(self, request: web.Request) -> web.Response:
        return revised(await self._version(request))

    async def _register(self, request: web.Request) -> web.Response:
        permit(request, Register)
        self._registry.replication.check_writable()
        asked = await self._asking.read(request, schemas.RegisterRequest)
        model, version = request.match_info["model"], request.match_info["version"]
        try:
            known = await self._version(request)
        except Unknown:
            pass
        else:
            is_same = known.manifest.sha256 == asked.manifest_sha256
            if is_same and known.origin == asked.origin and not known.deleted:
                return revised(known)  # the answer to the first one was lost
        command = await self._checked(asked, model, version)
        await apply(self._registry, request, command)
        return revised(await self._version(request), HTTPStatus.CREATED)

    async def _checked(
        self, asked: schemas.RegisterRequest, model: str, version: str
    ) -> Register:  # fmt: skip
        """The command, once everything that the manifest lists is here."""
        artifacts = self._registry.artifacts
        content = await artifacts.read(asked.manifest_sha256, MANIFEST_BYTES_MAX)
        manifest = parse_manifest(content, f"{model} {version}: {MANIFEST}")
        if (manifest.name, manifest.version) != (model, version):
            raise Malformed(
                f"{MANIFEST} is of {manifest.name} {manifest.version}, not of {model} {version}; "
                "register it under its own name"
            )
        files = {file.sha256: file for file in manifest.files()}
        # asked about, they are young: no garbage collection takes one before it is registered
        here = await artifacts.has([asked.manifest_sha256, *files])
        for file in files.values():
            if file.sha256 not in here:
                raise Unknown(f"{file.path} ({file.sha256}) is not here; upload it, then register")
            if (size := await artifacts.size(file.sha256)) != file.bytes:
                raise Malformed(
                    f"{file.path}: {MANIFEST} says {file.bytes} bytes, its content has {size}; "
                    "rebuild the bundle"
                )
        stored = StoredFile(path=MANIFEST, sha256=asked.manifest_sha256, bytes=len(content))
        return Register(manifest, stored, asked.origin, str(new_sample_id()))

    async def _evaluate(self, request: web.Request) -> web.Response:
        permit(request, QueueEvaluation)
        revision = revision_of(request)
        await self._asking.read(request, schemas.Nothing)
        command = QueueEvaluation(
            request.match_info["model"],
            request.match_info["version"],
            str(new_sample_id()),
            revision,
        )
        await apply(self._registry, request, command)
        catalog = self._registry.catalog
        found = await self._registry.read(catalog.evaluation, command.evaluation_id)
        return document(found, HTTPStatus.ACCEPTED)

    async def _approve(self, request: web.Request) -> web.Response:
        return await self._judge(request, Approve)

    async def _reject(self, request: web.Request) -> web.Response:
        return await self._judge(request, Reject)

    async def _judge(
        self, request: web.Request, verdict: type[Approve] | type[Reject]
    ) -> web.Response:  # fmt: skip
        permit(request, verdict)
        revision = revision_of(request)
        asked = await self._asking.read(request, schemas.CommentRequest)
        model, version = request.match_info["model"], request.match_info["version"]
        await apply(self._registry, request, verdict(model, version, asked.comment, revision))
        return revised(await self._version(request))

    async def _delete(self, request: web.Request) -> web.Response:
        permit(request, Delete)
        revision = revision_of(request)
        comment = request[QUERY].get("comment", "")
        if len(comment) > COMMENT_LENGTH_MAX:
            raise Malformed(f"comment: {len(comment)} characters; at most {COMMENT_LENGTH_MAX}")
        model, version = request.match_info["model"], request.match_info["version"]
        await apply(self._registry, request, Delete(model, version, comment, revision))
        return done()

    async def _version(self, request: web.Request) -> ModelVersion:
        model, version = request.match_info["model"], request.match_info["version"]
        return await self._registry.read(self._registry.catalog.version, model, version)
