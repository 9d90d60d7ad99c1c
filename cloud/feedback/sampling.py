"""Which samples a data set takes. Pure: the same candidates, spec and seed give the same ones.

In this order: labels that do not count go; a device's rows of one class are capped; where more are
left than wanted, strata of class and site give evenly, and within each the recent ones are likelier.
Whatever is left to chance follows from each sample's own number (`cloud/store/draw.py`) and the seed,
so one more sample in the store changes little.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.documents import DataSetSpec, Flooding, Source
from cloud.feedback.ranking import CODES
from cloud.store.draw import FOLDS, folds_of

_FLOODING_MAX: Final = 100
_DEVICES_MIN: Final = 3
_FAIR_PARTS: Final = 2.5
"""A device may have as many times its even part of a class, where devices are few: when a scene changes
for half of them, each of those sends twice its part, and nobody floods."""
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_GOLDEN: Final = 0x9E3779B97F4A7C15
_ALL_BITS: Final = (1 << 64) - 1

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """N samples that match a spec's conditions, in one order on every machine; arrays [N]."""

    seqs: Ints
    """Where they are in the store."""
    draws: NDArray[np.uint64]
    devices: Ints
    """Numbers into `device_names`."""
    sites: Ints
    labels: Ints
    sources: NDArray[np.uint8]
    """As `ranking.CODES`."""
    cloud_confidence: NDArray[np.float32]
    contradicted: NDArray[np.bool_]
    received: NDArray[np.float64]
    """Unix seconds."""
    device_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.seqs)


@dataclass(frozen=True, slots=True)
class Chosen:
    taken: Ints
    """Numbers into the candidates, rising."""
    holdout: NDArray[np.bool_]
    """[taken]."""
    excluded: dict[str, int]
    flooding: tuple[Flooding, ...]


def choose(candidates: Candidates, spec: DataSetSpec) -> Chosen:
    """At most `spec.rows_max` of them."""
    excluded: dict[str, int] = {}
    kept = np.ones(len(candidates), np.bool_)
    cloud = candidates.sources == CODES[Source.CLOUD]
    for reason, wrong in (
        ("contradicted", candidates.contradicted),
        ("low_rank", candidates.sources > CODES[spec.source_min]),
        ("unsure", cloud & (candidates.cloud_confidence < spec.cloud_confidence_min)),
    ):
        if found := int((kept & wrong).sum()):
            excluded[reason] = found
        kept &= ~wrong
    order = _order(candidates, spec)
    left = np.flatnonzero(kept)
    capped, flooding = _cap(candidates, left, order, spec.device_class_share_max)
    if len(capped) < len(left):
        excluded["flooding"] = len(left) - len(capped)
    taken = _spread(candidates, capped, order, spec)
    if len(taken) < len(capped):
        excluded["over_rows_max"] = len(capped) - len(taken)
    held = candidates.draws[taken] % np.uint64(FOLDS) < np.uint64(folds_of(spec.holdout_share))
    return Chosen(taken, held, excluded, flooding)


def _order(candidates: Candidates, spec: DataSetSpec) -> NDArray[np.float64]:
    """Who comes first, the smallest: sampling without replacement by weights (Efraimidis and
    Spirakis 2006), as logarithms, which nothing underflows. What people labelled comes before all.
    """
    chance = np.maximum(_uniform(candidates.draws, spec.seed), 2.0**-53)
    order = np.log(-np.log(chance) + 2.0**-60)
    if spec.half_life_s is not None and len(candidates):
        age = candidates.received.max() - candidates.received
        order = order + age * (np.log(2) / spec.half_life_s)
    span = float(np.ptp(order)) + 1.0 if len(order) else 1.0
    first: NDArray[np.float64] = order - span * (candidates.sources == CODES[Source.PERSON])
    return first


def _uniform(draws: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """[0, 1): SplitMix64's finish (Steele, Lea and Flood 2014) of the sample's number and the seed."""
    mixed = draws + np.uint64((seed + 1) * _GOLDEN & _ALL_BITS)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _cap(
    candidates: Candidates, left: Ints, order: NDArray[np.float64], share_max: float
) -> tuple[Ints, tuple[Flooding, ...]]:
    kept: list[Ints] = []
    flooding: list[Flooding] = []
    for label, rows in _groups(candidates.labels, left):
        by_device = list(_groups(candidates.devices, rows))
        bound = cap_of([len(own) for _, own in by_device], share_max)
        for device, own in by_device:
            if len(own) <= bound:
                kept.append(own)
                continue
            kept.append(own[np.argsort(order[own], kind="stable")][:bound])
            name = candidates.device_names[device]
            flooding.append(
                Flooding(device=name, label=label, rows=len(own), dropped=len(own) - bound)
            )
    flooding.sort(key=lambda one: (-one.dropped, one.device, one.label))
    return _sorted(kept), tuple(flooding[:_FLOODING_MAX])


def cap_of(counts: list[int], share_max: float) -> int:
    """How many rows of a class each device may have at most, so that none has more than the share of
    what is left: the largest k with k <= share x sum(min(count, k)), and 1 at least.

    Where devices are few the share is two and a half even parts: three with 20% each make no whole.
    """
    devices = len(counts)
    most = max(counts, default=0)
    if devices < _DEVICES_MIN:
        return most
    share = max(share_max, _FAIR_PARTS / devices)
    if share >= 1:
        return most
    below = 0  # rows of devices that are under the bound
    for position, count in enumerate(sorted(counts)):
        # with k from the count before to this one: k <= share x (below + above x k), which is
        # concave in k, so it fails from the first k on that it fails for
        above = devices - position
        if share * above < 1:
            bound = share * below / (1 - share * above)
            if bound < count:
                return max(1, int(bound + 1e-9))
        below += count
    return most


def _spread(
    candidates: Candidates, left: Ints, order: NDArray[np.float64], spec: DataSetSpec
) -> Ints:
    if len(left) <= spec.rows_max:
        return left
    stratum = np.zeros(len(candidates), np.int64)
    if "class" in spec.stratify:
        stratum = candidates.labels.copy()
    if "site" in spec.stratify:
        stratum = stratum * (int(candidates.sites.max()) + 1) + candidates.sites
    groups = [rows for _, rows in _groups(stratum, left)]
    parts = even_parts([len(rows) for rows in groups], spec.rows_max)
    return _sorted([
        rows[np.argsort(order[rows], kind="stable")][:part]
        for rows, part in zip(groups, parts, strict=True)
    ])  # fmt: skip


def even_parts(counts: list[int], wanted: int) -> list[int]:
    """How many each gives: evenly, and what small ones lack the others give (water-filling)."""
    parts = [0] * len(counts)
    rest = wanted
    by_size = sorted(range(len(counts)), key=lambda index: (counts[index], index))
    for position, index in enumerate(by_size):
        fair = rest // (len(counts) - position)
        parts[index] = min(counts[index], fair)
        rest -= parts[index]
    for index in reversed(by_size):  # what rounding left
        if rest and parts[index] < counts[index]:
            more = min(rest, counts[index] - parts[index])
            parts[index] += more
            rest -= more
    return parts


def _groups(keys: Ints, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """The rows of each key, keys rising."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    found, starts = np.unique(keys[order], return_index=True)
    for key, own in zip(found, np.split(order, starts[1:]), strict=bool(len(found))):
        yield int(key), own


def _sorted(parts: list[Ints]) -> Ints:
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
