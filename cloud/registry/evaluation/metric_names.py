"""The metrics that rules may name, and what each is. How they are computed: docs/evaluation.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Metric:
    """`higher_is_better` colours differences in the report; rules say themselves what they want."""

    words: str
    higher_is_better: bool = True


METRICS: Mapping[str, Metric] = MappingProxyType({
    "accuracy": Metric("share of rows whose winner is the label"),
    "precision": Metric("macro precision over the classes that occur"),
    "recall": Metric("macro recall over the classes that occur"),
    "f1": Metric("macro F1 over the classes that occur"),
    "auc": Metric("macro one-vs-rest area under the ROC curve"),
    "ece": Metric("expected calibration error, 15 bins", higher_is_better=False),
    "worst_class": Metric("least recall of a class with enough rows"),
    "worst_slice": Metric("least accuracy of a slice with enough rows"),
    "p50_ms": Metric("median latency at batch 1", higher_is_better=False),
    "p95_ms": Metric("95th percentile of latency at batch 1", higher_is_better=False),
    "p99_ms": Metric("99th percentile of latency at batch 1", higher_is_better=False),
    "memory_mb": Metric("growth of a process that opens and runs it", higher_is_better=False),
    "throughput_per_s": Metric("rows a second at the best batch size"),
    "noise": Metric("accuracy under Gaussian noise"),
    "blur": Metric("accuracy under Gaussian blur"),
    "brightness": Metric("accuracy when brighter or darker, the lower of the two"),
    "boundary": Metric("share of boundary inputs answered finitely and as by the reference"),
    "fgsm": Metric("accuracy after a step along an estimated gradient"),
    "parity": Metric("least agreement with the golden reference and with the other variants"),
})  # fmt: skip
