"""A catalog for tests: commands of few words, and the pure decisions on a catalog in memory."""

import hashlib
import uuid
from dataclasses import replace
from typing import Any

from cloud.registry.catalog.chain import entry_after
from cloud.registry.catalog.changes import Promoted
from cloud.registry.catalog.commands import (
    Approve,
    ClaimEvaluation,
    Command,
    Delete,
    EndEvaluation,
    PublishTrust,
    Register,
    Release,
    Retire,
    SetModel,
)
from cloud.registry.catalog.decide import decide
from cloud.registry.catalog.memory_view import MemoryView
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.documents import (
    Entry,
    Evaluation,
    Gate,
    Hardware,
    Model,
    ModelVersion,
    Origin,
    Runner,
    StoredFile,
)
from shared.bundle.manifest import (
    Backbone,
    Calibration,
    File,
    Golden,
    Lineage,
    Manifest,
    PayloadCodec,
    Tensor,
    Variant,
)

HARDWARE = Hardware(
    fingerprint="f", cpu="a cpu", cores=2, memory_bytes=2**30, system="Linux", engines={"onnx": "1"}
)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def new_id() -> str:
    return str(uuid.uuid4())


def stored(path: str, text: str) -> StoredFile:
    return StoredFile(path=path, sha256=sha256(text), bytes=len(text))


def manifest(
    version: str = "1.0.0",
    name: str = "m",
    *,
    content: str = "",
    lineage: dict[str, Any] | None = None,
    backbone: Backbone | None = None,
    card: str = "# card",
) -> Manifest:
    """`content` tells two of one version apart."""

    def file(path: str, text: str) -> File:
        return File(path=path, sha256=sha256(text), bytes=len(text))

    graph = file("model.onnx", f"graph {name} {version} {content}")
    shape = (8,) if backbone else (4, 4)
    return Manifest(
        format=1, name=name, version=version, task="classify",
        inputs=(Tensor(name="x", dtype="float32", shape=shape),),
        outputs=(Tensor(name="y", dtype="float32", shape=(2,)),),
        labels=("cat", "dog"), backbone=backbone,
        variants=(Variant(engine="onnxruntime", precision="int8", file=graph),),
        calibration=Calibration(temperature=1.0, score="max_softmax"),
        golden=Golden(file=file("golden.npz", "golden"), tolerance={}, agreement_min={}),
        payload=PayloadCodec(codec="raw"), reference=(),
        lineage=Lineage.model_validate({
            "data_set": "train 3", "data_sha256": sha256("data"), "code_version": "abc",
            "hyperparameters": {"lr": 0.1}, "metrics": {"accuracy": 0.9}, **(lineage or {}),
        }),
        card=file("card.md", card),
    )  # fmt: skip


def register(
    version: str = "1.0.0", name: str = "m", *, parent: str | None = None, **more: Any
) -> Register:
    found = manifest(version, name, **more)
    return Register(
        found, stored("manifest.json", found.model_dump_json()), Origin(parent=parent), new_id()
    )


def passed(claimed: Evaluation, **update: Any) -> EndEvaluation:
    """What an evaluator says that was content."""
    found: dict[str, Any] = {
        "state": "passed", "why": "all rules hold",
        "metrics": {"onnxruntime/int8": {"accuracy": 0.9}}, **update,
    }  # fmt: skip
    return EndEvaluation(claimed.model_copy(update=found), HARDWARE)


def trust(version: int, model: str = "m") -> PublishTrust:
    role = f"model-{model}"
    return PublishTrust(role, version, stored(f"{version}.{role}.json", f"{role} {version}"))


class World:
    """The decisions, on a catalog in memory. `now` is a clock that its test sets."""

    def __init__(self, **limits: Any) -> None:
        self.view = MemoryView()
        self.limits = CatalogSettings(**limits)
        self.now = 1_000.0
        self.log: list[Entry] = []

    def do(self, command: Command, actor: str = "ann") -> list[Entry]:
        made = []
        for change in decide(command, self.view, self.limits, actor, self.now):
            head = self.view.head()
            epoch = change.epoch if isinstance(change, Promoted) else head.epoch
            entry = entry_after(
                head, epoch, self.now, actor, change.kind, change.model_dump(mode="json")
            )
            self.view.append(entry)
            made.append(entry)
        self.log += made
        return made

    def model(self, name: str = "m") -> Model:
        found = self.view.model(name)
        assert found is not None
        return found

    def version(self, version: str = "1.0.0", model: str = "m") -> ModelVersion:
        found = self.view.version(model, version)
        assert found is not None
        return found

    def runs(self, version: str, name: str = "dev-1", seen_at: float | None = None) -> None:
        self.view.runners.append(
            Runner(
                name=name, model="m", version=version, variant="onnxruntime/int8",
                seen_at=self.now if seen_at is None else seen_at,
            )
        )  # fmt: skip

    def claim(self, evaluator: str = "w", lease_s: float = 60.0) -> Evaluation:
        made = self.do(ClaimEvaluation(evaluator, lease_s))
        found = self.view.evaluation(str(made[-1].change["id"]))
        assert found is not None
        return found

    def candidate(self, version: str = "1.0.0", name: str = "m", **more: Any) -> ModelVersion:
        """A version that passed; its model is made where it is not there, with a rule's approval."""
        if self.view.model(name) is None:
            self.do(SetModel(name, "ann", Gate(approval="rule")))
        self.do(register(version, name, **more))
        self.do(passed(self.claim()))
        return self.version(version, name)

    def released(self, *versions: str) -> None:
        """Each released, in turn."""
        for version in versions:
            self.candidate(version)
            self.release(version)

    def release(self, version: str, **more: Any) -> list[Entry]:
        newest = self.view.trust("model-m", None)
        number = newest.version + 1 if newest is not None else 1
        self.do(trust(number))
        return self.do(replace(Release("m", version, "it is good", number), **more))

    def retire(self, version: str) -> list[Entry]:
        newest = self.view.trust("model-m", None)
        assert newest is not None
        return self.do(Retire("m", version, "it is not", newest.version))

    def delete(self, version: str) -> list[Entry]:
        return self.do(Delete("m", version, "no room"))

    def approve(self, version: str = "1.0.0") -> list[Entry]:
        return self.do(Approve("m", version, "looks good"), "eve")
