from dataclasses import replace

import numpy as np
import pytest

from edge.answers import Answer
from edge.routing.fusion import final_answer
from shared.bundle.manifest import Calibration
from shared.wire.envelope import CloudAnswer
from tests.edge.samples import pending


def _final(
    weight: float,
    cloud: list[float],
    *,
    fusion: bool = True,
    logits: tuple[float, ...] = (0.5, 1.5, -1.0),
) -> Answer:
    p = replace(pending(), logits=logits)
    answer = CloudAnswer(p.id, "c", "9.0.0", np.array(cloud, np.float32), 0.0, 0.0)
    calibration = Calibration(temperature=1.0, score="max_softmax", fusion_cloud_weight=weight)
    return final_answer(
        p, answer, calibration, fusion=fusion, latency_ms=12.0, uplink_bytes=99
    )  # fmt: skip


def test_the_cloud_alone_decides_with_weight_one() -> None:
    answer = _final(1.0, [0.2, 0.1, 0.7])
    assert (answer.label, answer.source, answer.final) == (2, "cloud", True)
    assert answer.confidence == pytest.approx(0.7)
    assert (answer.model_version, answer.edge_label) == ("9.0.0", 1)
    assert (answer.latency_ms, answer.first_latency_ms, answer.uplink_bytes) == (12.0, 0.5, 99)


def test_both_are_pooled_with_the_bundles_weight() -> None:
    answer = _final(0.5, [0.4, 0.35, 0.25])
    assert (answer.label, answer.source) == (1, "fused")
    edge = np.exp([0.5, 1.5, -1.0])
    pooled = np.sqrt(edge / edge.sum() * np.array([0.4, 0.35, 0.25]))
    assert answer.confidence == pytest.approx(pooled[1] / pooled.sum(), abs=1e-5)


def test_fusion_can_be_turned_off() -> None:
    answer = _final(0.5, [0.4, 0.35, 0.25], fusion=False)
    assert (answer.label, answer.source) == (0, "cloud")


@pytest.mark.parametrize(
    "logits", [(0.5, 1.5), (), (0.5, float("nan"), 1.0), (float("inf"), 0.0, 0.0)], ids=str
)
def test_logits_that_cannot_be_pooled_leave_the_cloud_alone(logits: tuple[float, ...]) -> None:
    answer = _final(0.5, [0.4, 0.35, 0.25], logits=logits)
    assert (answer.label, answer.source) == (0, "cloud")
    assert answer.confidence == pytest.approx(0.4)
