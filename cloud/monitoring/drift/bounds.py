"""From where on what a window shows is called drift. Pure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.reference import LOOKED, MISSING, SAMPLES
from cloud.monitoring.drift.settings import DriftSettings

Floats = NDArray[np.float64]
KINDS: Final = (Kind.INPUT, Kind.ANSWER, Kind.MISSING)
"""What windows show."""


def kind_of(feature: str) -> Kind:
    return Kind.INPUT if feature.startswith("input_") else Kind.ANSWER


def bound(feature: str, settings: DriftSettings) -> float:
    """PSI from which on it counts as drift."""
    if kind_of(feature) is Kind.INPUT:
        return settings.input_psi
    return settings.class_psi if feature == "predicted_class" else settings.confidence_psi


def weights(rows: Floats) -> Floats:
    """Samples of each row."""
    if not rows.size:
        return np.zeros(len(rows))
    return np.asarray(rows[:, SAMPLES])


def missing_share(row: Floats) -> float:
    """Of the inputs that were looked at."""
    return float(row[MISSING] / row[LOOKED]) if row[LOOKED] > 0 else 0.0
