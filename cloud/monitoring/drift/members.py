"""Which devices of a group drift by themselves, where the group does: each kind of drift by itself. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift.bounds import Floats, bound, missing_share, weights
from cloud.monitoring.drift.distance import Distances, binomial_chance, chance, distances, leaning
from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.reference import LOOKED, MISSING, Reference
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.window import Parts

_PART_MIN: Final = 10
"""Samples of a device's part in a group's window, from which on it is looked at by itself."""
_PART_CHANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Members:
    count: int = 1
    """That could be looked at."""
    drifting: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    """Their names, in order."""
    together: frozenset[Kind] = frozenset()
    """Kinds in which what is left drifts still without almost half of the devices, those that drift
    most: of many slow ones none has samples enough to be looked at by itself."""

    def that_drift(self, kind: Kind) -> tuple[str, ...]:
        return self.drifting.get(kind, ())


def of_group(
    reference: Reference, parts: Parts, over: Mapping[Kind, AbstractSet[str]],
    settings: DriftSettings,
) -> Members:  # fmt: skip
    """`over`: kinds in which the group drifts, and their features that do."""
    if not over:
        return Members(int(_counted(parts, settings).sum()))
    places = np.flatnonzero(_counted(parts, settings)).tolist()
    found = distances(reference, parts.rows)
    drifting = {
        kind: tuple(sorted(
            parts.devices[place] for place in places
            if _drifts(reference, parts.rows[place], found, place, kind, features, settings)
        ))
        for kind, features in over.items()
    }  # fmt: skip
    together = frozenset(
        kind for kind, features in over.items()
        if _together(reference, parts, kind, features, settings)
    )  # fmt: skip
    return Members(len(places), drifting, together)


def _counted(parts: Parts, settings: DriftSettings) -> NDArray[np.bool_]:
    return weights(parts.rows) >= min(_PART_MIN, settings.samples_min)


def _drifts(
    reference: Reference, row: Floats, found: Distances, place: int, kind: Kind,
    features: AbstractSet[str], settings: DriftSettings,
) -> bool:  # fmt: skip
    """Its effect is over a bound, and chance alone would hardly do that."""
    if kind is Kind.MISSING:
        missing, looked = int(row[MISSING]), int(row[LOOKED])
        return (
            missing_share(row) >= settings.missing_share
            and binomial_chance(missing, looked, settings.missing_expected) < _PART_CHANCE
        )
    return any(
        feature.name in features
        and found.psi[place, at] >= bound(feature.name, settings)
        and chance(found.g[place, at], int(found.freedom[place, at])) < _PART_CHANCE
        for at, feature in enumerate(reference.features)
    )


def _together(
    reference: Reference, parts: Parts, kind: Kind, features: AbstractSet[str],
    settings: DriftSettings,
) -> bool:  # fmt: skip
    """Each feature by itself, since a device may lead in one and not in another."""
    count = len(parts.devices)
    kept = count - max(1, -(-count // 2) - 1)
    if kind is Kind.MISSING:
        most = parts.rows[:, MISSING] - settings.missing_share * parts.rows[:, LOOKED]
        leads = [most]
    else:
        leads = [leaning(one, parts.rows) for one in reference.features if one.name in features]
    for lead in leads:
        rest = parts.rows[np.argsort(lead, kind="stable")[:kept]].sum(axis=0)
        found = distances(reference, rest[None])
        if _drifts(reference, rest, found, 0, kind, features, settings):
            return True
    return False
