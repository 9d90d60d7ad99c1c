"""`make models`: train both networks, quantize, calibrate, write both bundles. Seeded, logged.

    python -m cloud.training.recipe --models models --runs runs [--threads 2]

The order keeps the splits apart: weights see `train` alone; int8 ranges, temperature, thresholds,
fusion weight, golden samples and sketches see `calibrate` alone; `test` is read at the very end,
for the figures, and decides nothing. A run that is stopped resumes after its last epoch.
"""

import argparse
import hashlib
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cloud.training import bundles, calibrate, cards, evaluate, export, fashion_mnist
from cloud.training.bundles import Graph
from cloud.training.fashion_mnist import LABELS, Dataset, Split
from cloud.training.fit import Plan, fit, logits_of
from cloud.training.networks import CloudNet, EdgeNet
from cloud.training.references import reference
from shared import logs
from shared.bundle.manifest import Calibration, Lineage
from shared.confidence import softmax
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine

log = logging.getLogger(__name__)

EDGE, CLOUD, VERSION = "fashion-edge", "fashion-cloud", "1.0.0"
CLOUD_PLAN = Plan(
    epochs=40,
    seed=1,
    learning_rate_max=0.25,
    bad_day_share=0.35,
    bad_day_share_late=0.15,
    moves=True,
    bf16=True,
)
CLOUD_POLISH = Plan(  # on what escalations look like when they arrive
    epochs=6,
    seed=3,
    learning_rate_max=0.02,
    bad_day_share=0.15,
    bad_day_share_late=0.15,
    coarse_share=0.5,
    bf16=True,
)
EDGE_PLAN = Plan(epochs=30, seed=2, learning_rate_max=0.1, weight_decay=2e-4)
QUANTIZE_SAMPLES, GOLDEN_SAMPLES, DICTIONARY_SAMPLES = 512, 64, 4_000
EPSILONS = (0.002, 0.003, 0.005, 0.01)
DEFAULT_EPSILON = 0.005  # 0.003 escalates half as much again for the same calibration accuracy
DELTA = 0.05
SLICE, SLICE_SEED, GOLDEN_SEED = 2_000, 11, 1
IMAGE = (28, 28)


@dataclass(frozen=True, slots=True)
class Made:
    """A fitted network as graphs, and the int8 graph's logits on the calibration split."""

    fp32: bytes
    int8: bytes
    calibrate_logits: NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train, quantize, calibrate; write both bundles.")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="checkpoints")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    logs.set_up("INFO")
    torch.set_num_threads(arguments.threads)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    make_models(fashion_mnist.load(), arguments.models, arguments.runs)


def make_models(data: Dataset, models: Path, runs: Path) -> None:
    torch.manual_seed(CLOUD_PLAN.seed)
    cloud_net = fit(CloudNet(), data.train, CLOUD_PLAN, checkpoint=runs / "cloud.ckpt")
    cloud_net = fit(cloud_net, data.train, CLOUD_POLISH, checkpoint=runs / "cloud-polish.ckpt")
    mirrored = np.ascontiguousarray(data.train.images[:, :, ::-1])
    teacher = np.stack([logits_of(cloud_net, x) for x in (data.train.images, mirrored)])
    torch.manual_seed(EDGE_PLAN.seed)
    edge_net = fit(
        EdgeNet(), data.train, EDGE_PLAN, teacher_logits=teacher, checkpoint=runs / "edge.ckpt"
    )
    cloud, edge = _made(cloud_net, data.calibrate), _made(edge_net, data.calibrate)
    dictionary = bundles.grey4_dictionary(data.train.images[:DICTIONARY_SAMPLES])
    cloud_calibration, edge_calibration = _calibrations(edge, cloud, data.calibrate, dictionary)
    figures = _figures(edge, cloud, edge_calibration, data.test, dictionary)
    for name, value in figures.items():
        log.info("figure", extra={"figure": name, "value": round(value, 4)})
    for name, made, plans, calibration in (
        (EDGE, edge, {"fit": EDGE_PLAN}, edge_calibration),
        (CLOUD, cloud, {"fit": CLOUD_PLAN, "polish": CLOUD_POLISH}, cloud_calibration),
    ):
        _write(models / name, name, made, plans, calibration, figures, data, dictionary)
    _write_slice(models / "fashion-mnist-test-2000.npz", data.test)


def _made(network: torch.nn.Module, split: Split) -> Made:
    model = export.to_onnx(network, split.images[:2])
    int8 = export.to_int8(model, split.images[:QUANTIZE_SAMPLES]).SerializeToString()
    return Made(model.SerializeToString(), int8, _run(int8, split.images))


def _run(graph: bytes, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    session = OnnxRuntimeEngine().open(graph, OpenOptions())
    return evaluate.logits(session, images)


def _calibrations(
    edge: Made, cloud: Made, split: Split, dictionary: bytes
) -> tuple[Calibration, Calibration]:
    """The cloud's and the edge's, from what each says about the calibration split.

    Thresholds and fusion weight see the cloud's answers to what arrives, not to the raw images.
    """
    cloud_temperature = calibrate.temperature(cloud.calibrate_logits, split.labels)
    edge_temperature = calibrate.temperature(edge.calibrate_logits, split.labels)
    arrived, _ = evaluate.as_escalated(split.images, dictionary)
    cloud_says = softmax(_run(cloud.int8, arrived), cloud_temperature)
    edge_says = softmax(edge.calibrate_logits, edge_temperature)
    unsure = edge_says.max(1) < np.quantile(edge_says.max(1), 0.15)
    weight = calibrate.fusion_weight(edge_says[unsure], cloud_says[unsure], split.labels[unsure])
    table = tuple(
        calibrate.threshold(
            _threshold_name(epsilon), edge_says, cloud_says, split.labels,
            cloud_weight=weight, epsilon=epsilon, delta=DELTA,
        )
        for epsilon in EPSILONS
    )  # fmt: skip
    escalate_all = calibrate.measured(
        "escalate-all", calibrate.ESCALATE_ALL, None, edge_says, cloud_says, split.labels, weight
    )
    return (
        Calibration(temperature=cloud_temperature, score="max_softmax"),
        Calibration(
            temperature=edge_temperature, score="max_softmax", thresholds=(*table, escalate_all),
            default_threshold=_threshold_name(DEFAULT_EPSILON), fusion_cloud_weight=weight,
        ),
    )  # fmt: skip


def _threshold_name(epsilon: float) -> str:
    return f"loss-{epsilon * 1000:g}-per-mille"


def _figures(
    edge: Made, cloud: Made, calibration: Calibration, test: Split, dictionary: bytes
) -> dict[str, float]:
    """Everything that is read off the test split, once, when nothing can change any more."""
    engine = OnnxRuntimeEngine()
    edge_int8 = engine.open(edge.int8, OpenOptions())
    cloud_int8 = engine.open(cloud.int8, OpenOptions())
    arrived, payload_bytes = evaluate.as_escalated(test.images, dictionary)
    edge_logits = evaluate.logits(edge_int8, test.images)
    edge_says = softmax(edge_logits, calibration.temperature)
    default = next(t for t in calibration.thresholds if t.name == calibration.default_threshold)
    escalated = edge_says.max(1) < default.confidence_min
    _, escalated_bytes = evaluate.as_escalated(test.images[escalated], dictionary)
    figures = {
        "edge int8 accuracy": evaluate.accuracy(edge_logits, test.labels),
        "edge int8 accuracy in openvino": evaluate.accuracy(
            evaluate.logits(OpenVinoEngine().open(edge.int8, OpenOptions()), test.images),
            test.labels,
        ),
        "edge fp32 accuracy": evaluate.accuracy(_run(edge.fp32, test.images), test.labels),
        "edge calibration error": calibrate.expected_calibration_error(edge_says, test.labels),
        "cloud int8 accuracy": evaluate.accuracy(
            evaluate.logits(cloud_int8, test.images), test.labels
        ),
        "cloud fp32 accuracy": evaluate.accuracy(_run(cloud.fp32, test.images), test.labels),
        "cloud int8 accuracy on grey4": evaluate.accuracy(
            evaluate.logits(cloud_int8, arrived), test.labels
        ),
        "escalated share at the default threshold": float(escalated.mean()),
        "grey4 bytes, mean of all": payload_bytes,
        "grey4 bytes, mean of escalated": escalated_bytes,
    }
    for who, session in (("cloud", cloud_int8), ("edge", edge_int8)):
        shifted = evaluate.under_shifts(session, test)
        figures |= {f"{who} accuracy, {kind}": value for kind, value in shifted.items()}
        figures[f"{who} accuracy, mean of shifts"] = float(np.mean(list(shifted.values())))
    return figures


def _write(
    folder: Path, name: str, made: Made, plans: dict[str, Plan], calibration: Calibration,
    figures: dict[str, float], data: Dataset, dictionary: bytes,
) -> None:  # fmt: skip
    split = data.calibrate
    chosen = np.random.default_rng(GOLDEN_SEED).choice(len(split), GOLDEN_SAMPLES, replace=False)
    golden = bundles.golden_file(split.images[chosen], _run(made.fp32, split.images[chosen]))
    says = softmax(made.calibrate_logits, calibration.temperature)
    runtime = {"onnxruntime": ">=1.20", "openvino": ">=2025.0", "tensorrt": ">=10"}
    side = "cloud" if name == CLOUD else "edge"
    bundles.write(
        folder, name=name, version=VERSION, labels=LABELS, image_shape=IMAGE,
        answers_for=(EDGE,) if name == CLOUD else (),
        graphs=(
            Graph(f"{side}.int8", made.int8, (("onnxruntime", "int8"), ("openvino", "int8")), runtime),
            Graph(f"{side}.fp32", made.fp32, (("onnxruntime", "fp32"), ("tensorrt", "fp32")), runtime),
        ),
        golden=golden, dictionary=dictionary, calibration=calibration,
        reference=reference(split.images, says),
        lineage=Lineage(
            data_set="Fashion-MNIST (Debian dataset-fashion-mnist 0.0~git20200523)",
            data_sha256=hashlib.sha256(data.train.images.tobytes() + data.train.labels.tobytes()).hexdigest(),
            code_version=cards.code_version(), metrics=figures,
            hyperparameters={stage: asdict(plan) for stage, plan in plans.items()},
        ),
        card=cards.card(side, figures, calibration),
    )  # fmt: skip


def _write_slice(path: Path, test: Split) -> None:
    chosen = np.sort(np.random.default_rng(SLICE_SEED).choice(len(test), SLICE, replace=False))
    np.savez_compressed(
        path, images=test.images[chosen], labels=test.labels[chosen].astype(np.uint8)
    )


if __name__ == "__main__":
    main()
