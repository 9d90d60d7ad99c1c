"""The one place that makes a bundle of what a recipe has fitted or converted.

Calibrated, with thresholds, reference, golden samples, card and lineage; then opened and held against
its own golden samples, and only then put where the worker looks. Deterministic: the same graphs and
data give the same files.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from cloud.training import bundles, cards, evaluate
from cloud.training.bundles import Graph
from cloud.training.child_messages import Made
from cloud.training.recipes import calibrating, figures, reference
from cloud.training.recipes.base_data import BaseData
from cloud.training.recipes.calibrating import Sight
from cloud.training.recipes.field import Field, joined
from cloud.training.recipes.ground import Answering, opened
from shared.bundle.manifest import Calibration, Lineage, Sketch
from shared.bundle.reader import Bundle, open_bundle
from shared.confidence import softmax
from shared.disk import writing
from shared.engines.engine import Engine, OpenOptions, Session
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine
from shared.engines.parity import check_graph, measure_parity
from shared.errors import Malformed, Unavailable

RUNTIME: Final = {"onnxruntime": ">=1.20", "openvino": ">=2025.0", "tensorrt": ">=10"}
GOLDEN_SAMPLES: Final = 64
GOLDEN_SEED: Final = 1
GOLDEN_MARGIN: Final = 1.0
"""Logits between the winner and the next: a near tie may fall either way when it is rounded."""
DICTIONARY_SAMPLES: Final = 4_000
ENGINES: Final[dict[str, Engine]] = {
    engine.name: engine for engine in (OnnxRuntimeEngine(), OpenVinoEngine())
}


Role = Literal["edge", "cloud"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model as graphs, before anybody has measured it."""

    name: str
    version: str
    role: Role
    """An edge model escalates, so it has thresholds; a cloud model answers for edge models."""
    answers_for: tuple[str, ...] = ()
    graphs: tuple[Graph, ...]
    served: bytes
    """The graph that devices run first: what is calibrated and measured."""
    fp32: bytes
    """What the golden outputs are from."""
    network: str
    """In words, for the card."""
    parameters: int
    base_rows: int = 0
    """Of the base data, that its weights were fitted to."""
    soft_by: Answering | None = None
    """Whose soft labels of them its weights were fitted to as well; the field's own are the cloud's."""
    hyperparameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What it is measured on and compared with."""

    base: BaseData
    parent: Answering | None = None
    teacher: Answering | None = None
    """Whose answers thresholds are set against."""
    train: Field | None = None
    holdout: Field | None = None
    data_set: str | None = None
    """SHA-256 of the feedback's content."""
    dictionary: bytes | None = None
    """Of the payload codec, kept from the parent: the cloud knows it. None: one is trained."""


def graphs_of(role: Role, int8: bytes | None, fp32: bytes) -> tuple[Graph, ...]:
    """The usual two files and what runs them."""
    whole = Graph(f"{role}.fp32", fp32, (("onnxruntime", "fp32"), ("tensorrt", "fp32")), RUNTIME)
    if int8 is None:
        return (whole,)
    engines = (("onnxruntime", "int8"), ("openvino", "int8"))
    return Graph(f"{role}.int8", int8, engines, RUNTIME), whole


def make(candidate: Candidate, ground: Ground, folder: Path) -> Made:
    """Write the bundle to `folder`, replacing what stood there; measured, verified and tried.

    Raises `Malformed` when a graph does not reproduce its golden samples, `NoRoom` or another
    `Unavailable` when it cannot be written.
    """
    base, holdout = ground.base, ground.holdout
    session = opened(candidate.served, candidate.name)
    base_logits = evaluate.logits(session, base.calibrate.images)
    field_logits = None if holdout is None else _logits(session, holdout, len(base.names))
    dictionary = ground.dictionary or bundles.grey4_dictionary(
        base.train.images[:DICTIONARY_SAMPLES]
    )
    calibration = _calibration(candidate, ground, base_logits, field_logits, dictionary)
    measured = {
        **figures.of_model(base_logits, base.calibrate, calibration, ground.parent),
        **figures.of_graphs(candidate.served, candidate.fp32, candidate.parameters, base.calibrate),
        **figures.of_rows(candidate.base_rows, 0 if ground.train is None else len(ground.train)),
    }
    if holdout is not None and field_logits is not None:
        measured |= figures.of_holdout(field_logits, holdout, calibration, ground.parent)
    golden = _golden_inputs(candidate.fp32, base, holdout)
    beside = folder.with_name(f".{folder.name}.tmp")
    with writing(beside):
        shutil.rmtree(beside, ignore_errors=True)
        manifest = bundles.write(
            beside, name=candidate.name, version=candidate.version, labels=base.names,
            answers_for=candidate.answers_for, graphs=candidate.graphs, dictionary=dictionary,
            golden=bundles.golden_file(
                golden, evaluate.logits(opened(candidate.fp32, candidate.name), golden)
            ),
            calibration=calibration, reference=_reference(ground, session, base_logits, calibration),
            lineage=_lineage(candidate, ground, measured), image_shape=base.image_shape,
            card=cards.field_card(
                candidate.name, candidate.network, measured, calibration, base.source,
                _taught_by(candidate, ground),
            ),
        )  # fmt: skip
        tried(open_bundle(beside))
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    return Made(name=manifest.name, version=manifest.version, figures=measured)


def tried(bundle: Bundle) -> None:
    """Open every variant whose engine is here, and hold it against the golden samples."""
    for variant in bundle.manifest.variants:
        engine = ENGINES.get(variant.engine)
        if engine is None:
            continue
        where = f"{bundle.manifest.name} {variant.key}"
        try:
            session = engine.open(bundle.read(variant.file), OpenOptions(where=where))
        except Unavailable:
            continue  # the engine is not on this machine; whoever has it will look
        check_graph(bundle.manifest, session, where)
        parity = measure_parity(session, bundle.golden, bundle.manifest.golden, variant.precision)
        if not parity.passes:
            raise Malformed(
                f"{where}: does not reproduce the golden samples: {parity}; fit it longer or with a "
                "lower fitting.learning_rate, or leave this precision out"
            )


def _calibration(
    candidate: Candidate, ground: Ground, base_logits: NDArray[np.float32],
    field_logits: NDArray[np.float32] | None, dictionary: bytes,
) -> Calibration:  # fmt: skip
    split = ground.base.calibrate
    if candidate.role == "cloud":
        return calibrating.plain(Sight(base_logits, None, split.labels))
    cloud = None
    if ground.teacher is not None:
        arrived, _ = evaluate.as_escalated(split.images, dictionary)
        cloud = ground.teacher.probabilities(arrived)
    return calibrating.escalating(
        Sight(base_logits, cloud, split.labels), ground.holdout, field_logits
    )


def _logits(session: Session, field: Field, classes: int) -> NDArray[np.float32]:
    if not len(field):
        return np.zeros((0, classes), np.float32)
    return evaluate.logits(session, field.images)


def _reference(
    ground: Ground, session: Session, base_logits: NDArray[np.float32], calibration: Calibration
) -> tuple[Sketch, ...]:
    """Of everything that came back, trained on or not: what inputs look like is no secret to them."""
    says = softmax(base_logits, calibration.temperature)
    parts = [part for part in (ground.train, ground.holdout) if part is not None and len(part)]
    if not parts:
        return reference.reference(ground.base.calibrate.images, says, None, None)
    field = joined(parts)
    field_says = softmax(_logits(session, field, len(ground.base.names)), calibration.temperature)
    return reference.reference(ground.base.calibrate.images, says, field, field_says)


def _golden_inputs(fp32: bytes, base: BaseData, holdout: Field | None) -> NDArray[np.uint8]:
    """Of base data, and half of them from the field where there is any; none that is a near tie."""
    rng = np.random.default_rng(GOLDEN_SEED)
    session = opened(fp32, "fp32 graph")
    pools = [base.calibrate.images]
    if holdout is not None and len(holdout) >= GOLDEN_SAMPLES:
        pools.append(holdout.images)
    return np.concatenate(
        [_clear(session, pool, GOLDEN_SAMPLES // len(pools), rng) for pool in pools]
    )


def _clear(
    session: Session, pool: NDArray[np.uint8], count: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """`count` of the images, drawn; the clearest first where too few are clear."""
    drawn = pool[rng.permutation(len(pool))[: 8 * count]]
    best = np.sort(evaluate.logits(session, drawn), axis=1)
    margin = np.minimum(best[:, -1] - best[:, -2], GOLDEN_MARGIN)
    return drawn[np.sort(np.argsort(-margin, kind="stable")[:count])]


def _lineage(candidate: Candidate, ground: Ground, measured: Mapping[str, float]) -> Lineage:
    soft_by = None if candidate.soft_by is ground.parent else candidate.soft_by
    named = {"parent": ground.parent, "teacher": soft_by or ground.teacher}
    from_bundles: dict[str, JsonValue] = {
        role: f"{one.bundle.manifest.name}@{one.bundle.manifest.version}"
        for role, one in named.items()
        if one is not None
    }
    field = f" and feedback {ground.data_set}" if ground.data_set else ""
    return Lineage(
        data_set=f"{ground.base.source}{field}",
        data_sha256=ground.data_set or ground.base.sha256,
        code_version=cards.code_version(), metrics=dict(measured),
        hyperparameters={
            **candidate.hyperparameters, **from_bundles, "base_sha256": ground.base.sha256,
        },
    )  # fmt: skip


def _taught_by(candidate: Candidate, ground: Ground) -> str:
    said = []
    if candidate.base_rows:
        said.append(f"images of {ground.base.source} with their labels")
        if candidate.soft_by is not None:
            said.append(f"soft labels of these by {_named(candidate.soft_by)}")
    if ground.train is not None:
        by_person = int(ground.train.by_person.sum())
        said.append(
            f"{len(ground.train)} samples from the field, {by_person} labelled by people, the "
            "others by the cloud's model"
        )
    if not said and ground.parent is not None:
        said.append(f"none of its own, its weights are those of {_named(ground.parent)}")
    return "; ".join(said)


def _named(one: Answering) -> str:
    return f"{one.bundle.manifest.name} {one.bundle.manifest.version}"
