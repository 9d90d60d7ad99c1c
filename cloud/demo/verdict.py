"""Three ways to answer the same images, side by side, and whether the hybrid is worth it. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.demo.seen import Seen

ACCURACY_GAP_MAX = 0.003  # below always asking the cloud
ESCALATED_MAX = 0.20


@dataclass(frozen=True, slots=True)
class Row:
    """One way: accuracy and share in 0..1, MQTT payload bytes a sample, milliseconds."""

    name: str
    accuracy: float
    escalated: float
    bytes_per_sample: float
    first_p50_ms: float
    first_p99_ms: float
    final_p50_ms: float
    final_p99_ms: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy [N + 1] of escalating the k = 0..N least confident samples, and of an oracle."""

    share: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    oracle: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Verdict:
    edge: Row
    cloud: Row
    hybrid: Row
    curve: Curve
    lost: dict[str, int]
    unanswered: int
    failures: tuple[str, ...]  # why the exit code is not 0; empty when all is well


def judge(
    labels: NDArray[np.int64], never: Seen, always: Seen, hybrid: Seen, lost: dict[str, int]
) -> Verdict:
    """All three saw the same images: never escalated, all escalated losslessly, as configured."""
    edge_row = _row("edge only", never, labels)
    cloud_row, hybrid_row = _row("cloud only", always, labels), _row("hybrid", hybrid, labels)
    unanswered = sum(int((seen.final_label == -1).sum()) for seen in (never, always, hybrid))
    failures = []
    if hybrid_row.accuracy < cloud_row.accuracy - ACCURACY_GAP_MAX:
        failures.append(
            f"hybrid accuracy {hybrid_row.accuracy:.2%} is more than {ACCURACY_GAP_MAX:.1%} "
            f"below the cloud's {cloud_row.accuracy:.2%}"
        )
    if hybrid_row.escalated > ESCALATED_MAX:
        failures.append(f"{hybrid_row.escalated:.1%} escalated, over {ESCALATED_MAX:.0%}")
    if unanswered:
        failures.append(f"{unanswered} samples have no final answer")
    if any(lost.values()):
        failures.append(f"the loss ledgers are not empty: {lost}")
    return Verdict(
        edge_row, cloud_row, hybrid_row, _curve(labels, never, always), lost, unanswered,
        tuple(failures),
    )  # fmt: skip


def _row(name: str, seen: Seen, labels: NDArray[np.int64]) -> Row:
    return Row(
        name, _share(seen.final_label == labels), _share(seen.escalated),
        float(seen.uplink_bytes.mean()), *_latencies(seen.first_ms), *_latencies(seen.final_ms),
    )  # fmt: skip


def _curve(labels: NDArray[np.int64], never: Seen, always: Seen) -> Curve:
    edge_right, cloud_right = never.final_label == labels, always.final_label == labels
    gain = cloud_right.astype(int) - edge_right.astype(int)
    order = np.argsort(never.confidence, kind="stable")
    start, count = edge_right.sum(), len(labels)

    def along(chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray((start + np.concatenate([[0], np.cumsum(gain[chosen])])) / count)

    return Curve(
        share=np.arange(count + 1) / count,
        accuracy=along(order),
        oracle=along(np.argsort(-gain, kind="stable")),
    )


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean())


def _latencies(ms: NDArray[np.float64]) -> tuple[float, float]:
    return float(np.percentile(ms, 50)), float(np.percentile(ms, 99))
