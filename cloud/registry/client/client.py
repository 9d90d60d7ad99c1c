"""A registry as its documents and commands, over HTTP."""

from collections.abc import Sequence
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from cloud.registry.api.schemas import CollectAnswer, RegistryState, TrustAnswer, TrustState
from cloud.registry.client.connection import Connection, quoted
from cloud.registry.client.settings import ClientSettings
from cloud.registry.documents import (
    DataSet,
    Delta,
    Entry,
    Evaluation,
    Gate,
    Model,
    ModelVersion,
    Origin,
    ReplicaState,
    Runner,
)
from cloud.registry.replication.log_answer import LogAnswer
from shared.config import in_words
from shared.errors import Malformed, Unknown

D = TypeVar("D", bound=BaseModel)


class RegistryClient:
    """`async with RegistryClient(urls, key) as registry: ...`; URLs are tried in their order.

    Everything raises what the registry refuses with, in its words (`Unknown`, `Conflict`, ...), and
    `Unavailable` when it cannot be reached or puts a call off beyond `ClientSettings.patience_s`.
    """

    def __init__(
        self,
        urls: Sequence[str],
        key: str | None = None,
        settings: ClientSettings | None = None,
        rng: Random | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        """`tls`: None takes the system's authorities."""
        self.connection: Final = Connection(urls, key, settings or ClientSettings(), rng, tls)

    async def __aenter__(self) -> Self:
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    # what there is

    async def state(self) -> RegistryState:
        return await self._one(RegistryState, "GET", "/v1/registry")

    async def models(self) -> list[Model]:
        return await self._many(Model, "models", "/v1/models")

    async def model(self, name: str) -> Model:
        return await self._one(Model, "GET", _model(name))

    async def versions(self, model: str) -> list[ModelVersion]:
        return await self._many(ModelVersion, "versions", f"{_model(model)}/versions")

    async def version(self, model: str, version: str) -> ModelVersion:
        return await self._one(ModelVersion, "GET", _version(model, version))

    async def evaluations(self, model: str, version: str) -> list[Evaluation]:
        return await self._many(
            Evaluation, "evaluations", f"{_version(model, version)}/evaluations"
        )

    async def evaluation(self, evaluation_id: str) -> Evaluation:
        return await self._one(Evaluation, "GET", f"/v1/evaluations/{quoted(evaluation_id)}")

    async def report(self, evaluation_id: str, kind: Literal["json", "html"]) -> bytes:
        path = f"/v1/evaluations/{quoted(evaluation_id)}/report.{kind}"
        return (await self.connection.call("GET", path)).body

    async def checklist(self, model: str, version: str) -> list[str]:
        """What is missing before the version may be released; empty: nothing."""
        found = await self.connection.json("GET", f"{_version(model, version)}/checklist")
        return _read(list[str], _member(found, "missing"), "checklist")

    async def history(
        self, model: str, version: str | None = None, limit: int = 100
    ) -> list[Entry]:
        query = {"version": version, "limit": limit}
        return await self._many(Entry, "entries", f"{_model(model)}/history", query)

    async def log(self, after: int, limit: int = 1000, wait_s: int = 0) -> LogAnswer:
        """Entries after that one; waits up to `wait_s` seconds for the first, and never as long as
        silence counts as a lost connection.
        """
        waited = min(float(wait_s), self.connection.settings.silence_s_max / 2)
        query: dict[str, str | int | None] = {
            "after": after, "limit": limit, "wait_s": f"{waited:g}",
        }  # fmt: skip
        found = await self.connection.json("GET", "/v1/log", query=query)
        return _read(LogAnswer, found, "/v1/log")

    async def data_sets(self) -> list[DataSet]:
        return await self._many(DataSet, "data_sets", "/v1/data-sets")

    async def deltas_to(self, sha256: str) -> list[Delta]:
        return await self._many(Delta, "deltas", f"/v1/artifacts/{sha256}/deltas")

    async def runners(self, model: str | None = None) -> list[Runner]:
        """None: of every model."""
        return await self._many(Runner, "runners", "/v1/runners", {"model": model})

    async def replicas(self) -> list[ReplicaState]:
        return await self._many(ReplicaState, "replicas", "/v1/replicas")

    async def trust(self) -> TrustState:
        """Every role's version, expiry and keys; what waits for signatures."""
        return await self._one(TrustState, "GET", "/v1/trust")

    async def trust_file(self, name: str, bytes_max: int) -> bytes | None:
        """A TUF metadata file as python-tuf names it (`2.root.json`); None where there is none."""
        try:
            content = (await self.connection.call("GET", f"/tuf/{quoted(name)}")).body
        except Unknown:
            return None
        if len(content) > bytes_max:
            raise Malformed(f"/tuf/{name}: {len(content)} bytes; at most {bytes_max} are read")
        return content

    # what can be asked of it; `revision`: what was seen last, `Conflict` when it has changed

    async def set_model(
        self, name: str, *, owner: str | None, gate: Gate | None, revision: int | None = None
    ) -> Model:
        document = {
            "owner": owner,
            "gate": None if gate is None else gate.model_dump(mode="json"),
        }
        return await self._one(Model, "PUT", _model(name), document, revision)

    async def register(
        self, model: str, version: str, manifest_sha256: str, origin: Origin
    ) -> ModelVersion:
        """A version whose files are all there (`push.py`). The same again changes nothing."""
        document = {"manifest_sha256": manifest_sha256, "origin": origin.model_dump(mode="json")}
        return await self._one(ModelVersion, "PUT", _version(model, version), document)

    async def evaluate(self, model: str, version: str) -> Evaluation:
        return await self._one(Evaluation, "POST", f"{_version(model, version)}/evaluate", {})

    async def judge(
        self,
        verb: Literal["approve", "reject"],
        model: str,
        version: str,
        comment: str,
        revision: int | None = None,
    ) -> ModelVersion:
        path = f"{_version(model, version)}/{verb}"
        return await self._one(ModelVersion, "POST", path, {"comment": comment}, revision)

    async def launch(
        self,
        verb: Literal["release", "retire"],
        model: str,
        version: str,
        comment: str,
        metadata: object | None,
        revision: int | None = None,
    ) -> ModelVersion:
        """`metadata`: the model role's, signed; None where the registry has a release key."""
        path = f"{_version(model, version)}/{verb}"
        document = {"comment": comment, "metadata": metadata}
        return await self._one(ModelVersion, "POST", path, document, revision)

    async def delete(self, model: str, version: str, comment: str) -> None:
        path = _version(model, version)
        await self.connection.json("DELETE", path, query={"comment": comment})

    async def add_data_set(self, name: str, version: int, sha256: str, size: int) -> DataSet:
        """A data set whose file is in the artifact store."""
        path = f"/v1/data-sets/{quoted(name)}/{version}"
        return await self._one(DataSet, "PUT", path, {"sha256": sha256, "bytes": size})

    async def missing(self, sha256s: Sequence[str]) -> set[str]:
        """Those that the artifact store lacks."""
        asked = {"sha256": list(sha256s)}
        found = await self.connection.json(
            "POST", "/v1/artifacts/missing", document=asked, is_repeatable=True
        )
        return set(_read(list[str], _member(found, "missing"), "missing")) & set(sha256s)

    async def publish_trust(self, role: str, metadata: object) -> TrustAnswer:
        """Hand in signed metadata of a role; a second time it changes nothing."""
        path = f"/v1/trust/{quoted(role)}"
        return await self._one(TrustAnswer, "POST", path, {"metadata": metadata})

    async def discard_trust(self, role: str) -> None:
        """Forget what waits for signatures."""
        await self.connection.json("DELETE", f"/v1/trust/{quoted(role)}/staged")

    async def report_runner(self, runner: Runner) -> None:
        document = runner.model_dump(mode="json", exclude={"name", "seen_at"})
        path = f"/v1/runners/{quoted(runner.name)}"
        await self.connection.json("PUT", path, document=document)

    async def collect(self, *, is_dry_run: bool) -> CollectAnswer:
        return await self._one(CollectAnswer, "POST", "/v1/gc", {"dry_run": is_dry_run})

    async def _one(
        self,
        kind: type[D],
        method: str,
        path: str,
        document: object = None,
        revision: int | None = None,
    ) -> D:
        found = await self.connection.json(method, path, document=document, revision=revision)
        return _read(kind, found, path)

    async def _many(
        self, kind: type[D], name: str, path: str, query: dict[str, str | int | None] | None = None
    ) -> list[D]:
        found = await self.connection.json("GET", path, query=query)
        return _read(list[kind], _member(found, name), path)  # type: ignore[valid-type]


T = TypeVar("T")


def _read(kind: type[T], found: object, where: str) -> T:
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        raise Malformed(
            f"{where}: the registry's answer is none that this program reads: "
            f"{in_words(error)[:500]}; is one of the two older?"
        ) from error


def _member(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None


def _model(name: str) -> str:
    return f"/v1/models/{quoted(name)}"


def _version(model: str, version: str) -> str:
    return f"{_model(model)}/versions/{quoted(version)}"
