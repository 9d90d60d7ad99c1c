"""Bundles into a registry process by plain HTTP, and evaluations that end as a test needs them."""

import hashlib
import time
from pathlib import Path
from typing import Any

from cloud.registry.catalog.catalog import Catalog
from cloud.registry.catalog.commands import ClaimEvaluation, EndEvaluation
from cloud.registry.documents import Hardware
from cloud.registry.store.database import RegistryDatabase
from shared.bundle.files import MANIFEST
from tests.cloud.keyed_process import Reply
from tests.cloud.registry.servers import RegistryProcess
from tests.tiny_bundle import write_tiny_bundle

MODEL = "tiny"
HARDWARE = Hardware(
    fingerprint="f", cpu="c", cores=1, memory_bytes=1, system="s", engines={"onnxruntime": "1"}
)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def upload(registry: RegistryProcess, content: bytes, offset: int = 0, **headers: str) -> Reply:
    """All of it in one request, from `offset` on."""
    fields = {"Upload_Offset": str(offset), "Upload_Length": str(len(content)), **headers}
    return registry.call(
        "PATCH", f"/v1/uploads/{sha256(content)}", content[offset:], "trainer", **fields
    )


def make_model(registry: RegistryProcess, name: str = MODEL, approval: str = "rule") -> Any:
    gate = {"rules": "parity >= 0", "approval": approval}
    reply = registry.call("PUT", f"/v1/models/{name}", {"owner": "vision", "gate": gate}, "trainer")
    assert reply.status == 200, reply.body
    return reply.json


def push(
    registry: RegistryProcess,
    folder: Path,
    version: str = "1.0.0",
    model: str = MODEL,
    **bundle: Any,
) -> Any:
    """A tiny bundle, registered; the answer's document."""
    write_tiny_bundle(folder, name=model, version=version, **bundle)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            reply = upload(registry, path.read_bytes())
            assert reply.status == 204, reply.body
    manifest = sha256((folder / MANIFEST).read_bytes())
    path = f"/v1/models/{model}/versions/{version}"
    reply = registry.call("PUT", path, {"manifest_sha256": manifest}, "trainer")
    assert reply.status == 201, reply.body
    return reply.json


def end_evaluation(registry: RegistryProcess, model: str = MODEL, state: str = "passed") -> None:
    """As an evaluator would, beside the process, in its database: this model's, and whatever was
    queued before it.
    """
    database = RegistryDatabase(f"sqlite:///{registry.state_dir / 'catalog.db'}")
    try:
        catalog, now = Catalog(database), time.time()
        claimed = None
        while claimed is None or claimed.model != model:
            claimed = catalog.apply(ClaimEvaluation("test", 60.0), "test", now).evaluation
            assert claimed is not None
            changes = {
                "state": state, "why": "as the test needs it", "hardware": HARDWARE,
                "metrics": {"onnxruntime/fp32": {"parity": 1.0}},
            }  # fmt: skip
            ended = claimed.model_copy(update=changes)
            catalog.apply(EndEvaluation(ended, HARDWARE), "test", now)
    finally:
        database.close()


def candidate(
    registry: RegistryProcess,
    folder: Path,
    version: str = "1.0.0",
    model: str = MODEL,
    **bundle: Any,
) -> Any:
    """A version that lacks nothing but its release."""
    pushed = push(registry, folder, version, model, **bundle)
    end_evaluation(registry, model)
    return pushed
