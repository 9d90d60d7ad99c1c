"""The demo's models on its images under the six shifts of a camera: what is sent, what is right.

The figures behind `docs/telemetry.md` and ADR 0016; the cloud answers in process.
"""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cloud.training import evaluate
from cloud.training.shifts import SHIFTS, shift
from edge.routing.novelty import NoveltyWatch
from edge.routing.policy import policy_of
from edge.routing.settings import Budget, Novelty
from edge.telemetry.sketching import Sketching
from shared.bundle.reader import Bundle, open_bundle
from shared.confidence import softmax
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine

DEMO = Path(__file__).parents[3] / "models"
CLEAN = "clean"
AUDIT_SHARE = 0.01


@dataclass(frozen=True)
class Ran:
    sent: float
    novel: float
    audited: float
    hybrid: float
    level: str


@cache
def bundle(name: str) -> Bundle:
    return open_bundle(DEMO / name)


@cache
def data() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with np.load(DEMO / "fashion-mnist-test-2000.npz") as archive:
        return archive["images"][::2], archive["labels"][::2].astype(np.int64)


@cache
def seen(kind: str) -> NDArray[np.uint8]:
    images = data()[0]
    return images if kind == CLEAN else shift(images, kind)


@cache
def says(name: str, kind: str) -> NDArray[np.float32]:
    it = bundle(name)
    variant = next(v for v in it.manifest.variants if v.key == "onnxruntime/int8")
    session = OnnxRuntimeEngine().open(it.read(variant.file), OpenOptions())
    return softmax(evaluate.logits(session, seen(kind)), it.manifest.calibration.temperature)


def ran(kind: str, *, on: bool) -> Ran:
    """All of the images once, ten a second, with the bundle's own threshold."""
    manifest = bundle("fashion-edge").manifest
    edge, cloud = says("fashion-edge", kind), says("fashion-cloud", kind).argmax(1)
    policy = policy_of(manifest.calibration, None, None, AUDIT_SHARE)
    watch = NoveltyWatch(
        Sketching(manifest.reference), Novelty(on=on), Budget(), policy.audit_share, 0.0
    )
    rng = random.Random(1)
    routes, right = list[str](), 0
    for n, (image, answer, label) in enumerate(zip(seen(kind), edge, data()[1], strict=True)):
        winner, confidence, share = int(answer.argmax()), float(answer.max()), watch.audit_share
        novel = watch.said(winner, confidence) and watch.look(image, n / 10)
        route = "novel" if novel else policy.route(confidence, rng.random(), share)
        routes.append(route)
        right += (winner if route == "accepted" else cloud[n]) == label
    count = len(routes)
    return Ran(
        sent=1 - routes.count("accepted") / count, novel=routes.count("novel") / count,
        audited=routes.count("audit") / count, hybrid=right / count, level=watch.level,
    )  # fmt: skip


def test_of_clean_images_hardly_more_are_sent() -> None:
    before, now = ran(CLEAN, on=False), ran(CLEAN, on=True)
    assert now.sent <= before.sent + 0.01
    assert now.level == "calm"
    assert now.hybrid >= before.hybrid - 0.001


# Share sent at least; hybrid accuracy at most without, at least with.
FIGURES = {
    "rotate 20 deg": (0.70, 0.89, 0.86),
    "blur 1.0": (0.60, 0.91, 0.89),
    "brightness +60": (0.95, 0.60, 0.90),
    "contrast x 0.4": (0.60, 0.94, 0.91),
    "noise 30": (0.70, 0.90, 0.86),
    "camera fault": (0.95, 0.40, 0.85),
}


@pytest.mark.parametrize("kind", SHIFTS)
def test_under_a_shift_most_are_sent_and_the_hybrid_is_right_as_the_cloud_is(kind: str) -> None:
    before, now = ran(kind, on=False), ran(kind, on=True)
    sent, without, with_it = FIGURES[kind]
    assert now.level == "novel"
    assert now.sent >= max(sent, before.sent)
    assert before.hybrid <= without
    assert now.hybrid >= max(with_it, before.hybrid - 0.002)
    assert now.audited + now.novel > before.audited + 0.025, "what it is sure of is seen, too"


def test_sites_that_see_some_classes_only_are_not_sent_for_that() -> None:
    images, labels = data()
    manifest = bundle("fashion-edge").manifest
    answers = says("fashion-edge", CLEAN)
    for classes in ((0, 1, 2), (1, 3, 4, 7, 8), (0, 2, 4, 6)):
        watch = NoveltyWatch(Sketching(manifest.reference), Novelty(), Budget(), AUDIT_SHARE, 0.0)
        for n in np.flatnonzero(np.isin(labels, classes)):
            if watch.said(int(answers[n].argmax()), float(answers[n].max())):
                watch.look(images[n], float(n))
            assert watch.level != "novel", classes
