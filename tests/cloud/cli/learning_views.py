"""Documents of the learning process and of drift, for commands, drawings and comparisons."""

import hashlib
import io
from typing import Any

import numpy as np
from PIL import Image

from cloud.feedback.documents import DataSetSpec, DataSetVersion, FeedbackSample, Source
from cloud.learning.documents import Cycle, Loop, LoopSettings, Phase
from cloud.monitoring.drift.documents import Alarm, Cause, FeatureDrift, Kind, Scope
from cloud.training.documents import Artifact, FineTune, Job, JobSpec, JobState, Run

NOW = 1_800_000_000.0
HASH = "ab" * 32
ARTIFACT = b"a bundle" * 1000


def sample_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def sample(number: int, **more: Any) -> FeedbackSample:
    tree: dict[str, Any] = {
        "id": sample_id(number), "device": f"cam-{number % 3}", "site": "lyon",
        "reason": "escalated", "captured_at": NOW - number, "received_at": NOW - number,
        "edge_model": "fashion-edge", "edge_version": "1.0.0", "edge_label": 1,
        "edge_confidence": 0.55, "cloud_model": "fashion-cloud", "cloud_version": "1.0.0",
        "cloud_label": 2, "cloud_confidence": 0.71, "label": 2, "label_source": Source.CLOUD,
        "dtype": "uint8", "shape": (28, 28), "bytes": 784,
    }  # fmt: skip
    return FeedbackSample.model_validate(tree | more)


def job(name: str, **more: Any) -> Job:
    recipe = FineTune(version="1.0.1", student="fashion-edge@1.0.0", base="fashion-mnist")
    tree: dict[str, Any] = {
        "id": name, "spec": JobSpec(recipe=recipe, data_set=HASH), "state": JobState.RUNNING,
        "submitted_by": "anna", "submitted_at": NOW, "started_at": NOW, "progress": 0.4,
        "attempts": 1, "run": name, "worker": "w1",
    }  # fmt: skip
    return Job.model_validate(tree | more)


def run_of(name: str, **more: Any) -> Run:
    artifact = Artifact(
        name="bundle.hyb", sha256=hashlib.sha256(ARTIFACT).hexdigest(), bytes=len(ARTIFACT)
    )
    tree: dict[str, Any] = {
        "id": name, "parameters": {"fitting": {"epochs": 8, "seed": 0}}, "data_set": HASH,
        "code_version": "1.0", "machine": "2 cores", "started_at": NOW,
        "figures": {"clean.accuracy": 0.9, "loss": 0.3}, "artifacts": (artifact,),
    }  # fmt: skip
    return Run.model_validate(tree | more)


def cycle(**more: Any) -> Cycle:
    tree: dict[str, Any] = {
        "id": "fashion-edge-1", "model": "fashion-edge", "trigger": "drift",
        "trigger_words": "group lyon drifts", "phase": Phase.TRAINING, "begun_at": NOW,
        "since": NOW, "data_set": HASH, "job": "one",
    }  # fmt: skip
    return Cycle.model_validate(tree | more)


def loop(**more: Any) -> Loop:
    settings = LoopSettings(model="fashion-edge", teacher="fashion-cloud")
    tree: dict[str, Any] = {"settings": settings, "revision": 1, "cycle": cycle()}
    return Loop.model_validate(tree | more)


FEATURES = (
    FeatureDrift(feature="input_mean", samples=200, psi=0.05, ks=0.06, p=0.4),
    FeatureDrift(feature="input_low", samples=200, psi=0.9, ks=0.5, p=1e-9),
)
SCOPE = Scope(kind="group", name="lyon", model="fashion-edge", version="1.0.0")


def drift_alarm(**more: Any) -> Alarm:
    tree: dict[str, Any] = {
        "id": "lyon-input-1", "kind": Kind.INPUT, "scope": SCOPE, "cause": Cause.SCENE,
        "features": FEATURES, "devices": ("cam-1", "cam-2"), "devices_count": 5, "samples": 180,
        "words": "inputs are darker than the reference", "runbook": "look at the cameras",
        "command": "hybridge loop begin fashion-edge -m drift", "opened_at": NOW,
    }  # fmt: skip
    return Alarm.model_validate(tree | more)


def png() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)).save(out, "PNG")
    return out.getvalue()


def data_set(name: str, number: int, spec: DataSetSpec) -> DataSetVersion:
    return DataSetVersion(
        name=name, number=number, sha256=HASH, bytes=3, spec=spec, rows=7, holdout_rows=1,
        classes=2, per_class=(3, 4), devices=2, made_by="anna", made_at=NOW,
    )  # fmt: skip
