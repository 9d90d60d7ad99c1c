"""What is answered when a model does not answer. Pure.

The order for one request: a fresh answer from the cache; the model, if its breaker lets it; and on
a failure that `on` names a stale answer from the cache, then the rule, then the error itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np

from cloud.serving.failures import Failure
from cloud.serving.fallback_settings import FallbackSettings, LabelRule, PriorRule
from cloud.serving.job import Floats, Outputs
from shared.bundle.manifest import Manifest
from shared.errors import Malformed

_TINY = np.float32(1e-9)  # a logit must be finite


@dataclass(frozen=True, slots=True)
class Fallen:
    """An answer that is not the model's of now, and whose it is."""

    outputs: Outputs
    source: Literal["cache", "rule"]


class Fallback:
    """Of one loaded model."""

    def __init__(self, settings: FallbackSettings, manifest: Manifest) -> None:
        """Raises `Malformed` for a rule that does not fit the model."""
        self._on = frozenset(settings.on)
        self._rule: Outputs | None = None
        if settings.rule is not None:
            probabilities = _probabilities(settings.rule, manifest)
            logits = np.log(np.maximum(probabilities, _TINY)) * manifest.calibration.temperature
            self._rule = Outputs(logits.astype(np.float32)[None], probabilities[None])

    def answer(
        self, failure: Failure, rows: int, stale: Callable[[], Outputs | None]
    ) -> Fallen | None:
        """For `rows` rows; None: the failure stands. `stale` looks into the cache, if need be."""
        if failure not in self._on:
            return None
        kept = stale()
        if kept is not None:
            return Fallen(kept, "cache")
        if self._rule is None:
            return None
        logits, probabilities = self._rule.logits, self._rule.probabilities
        said = Outputs(np.repeat(logits, rows, axis=0), np.repeat(probabilities, rows, axis=0))
        return Fallen(said, "rule")


def _probabilities(rule: LabelRule | PriorRule, manifest: Manifest) -> Floats:
    labels = manifest.labels
    match rule:
        case LabelRule():
            shares = {rule.label: rule.confidence}
            rest = (1 - rule.confidence) / (len(labels) - 1) if len(labels) > 1 else 0.0
            if rest >= rule.confidence:
                raise Malformed(
                    f"fallback.rule: confidence {rule.confidence:g} among {len(labels)} labels of "
                    f"{manifest.name} is no winner's; make it more than {1 / len(labels):.3g}"
                )
        case PriorRule():
            shares, rest = rule.shares, 0.0
        case _:
            assert_never(rule)
    for label in shares:
        if label not in labels:
            raise Malformed(
                f"fallback.rule: {manifest.name} has no label {label[:60]!r}; "
                + (f"it has {', '.join(labels[:10])}" if labels else "it has none, so no rule")
            )
    return np.array([shares.get(label, rest) for label in labels], np.float32)
