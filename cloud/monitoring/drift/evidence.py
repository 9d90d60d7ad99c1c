"""What windows show at a look: of groups, of devices, of the fleet. Pure; many at a time.

Of a group counts only what stays when any one of its devices is left out: a device alone, whether
its sensor is broken or it lies, opens no group's alarm. The fleet drifts where most of its groups do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from cloud.monitoring.drift import members
from cloud.monitoring.drift.alarms import Reading, spent
from cloud.monitoring.drift.bounds import KINDS, Floats, bound, kind_of, missing_share, weights
from cloud.monitoring.drift.distance import Distances, binomial_chance, chance, distances
from cloud.monitoring.drift.documents import FeatureDrift, Kind
from cloud.monitoring.drift.members import Members
from cloud.monitoring.drift.reference import LOOKED, MISSING, SAMPLES, Feature, Reference
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import DeviceTrack, GroupTrack
from cloud.monitoring.drift.window import Parts

_AT_ONCE: Final = 2_000
"""Devices whose windows are looked at together: 100,000 at once would take 300 MB."""
_KNOWN_SHARE: Final = 0.2
"""Of a window's samples, so many must be counted before it says that there is no drift: devices look at
one input in four while all is calm. Of 40 that drift at 1 one in a hundred looks like none, of 25 one in
twelve.
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one scope's window."""

    samples: int
    readings: dict[Kind, Reading]
    features: tuple[FeatureDrift, ...]
    """Those that are over their bounds, the farthest first."""
    missing_share: float
    known: frozenset[Kind] = frozenset()
    """Kinds of which enough was counted to say that there is nothing."""
    members: Members = field(default_factory=Members)
    """For a group its devices, for the fleet its groups."""

    def features_of(self, kind: Kind) -> tuple[FeatureDrift, ...]:
        return tuple(one for one in self.features if kind_of(one.feature) is kind)


@dataclass(frozen=True, slots=True)
class _Held:
    """What the windows of some scopes are held to."""

    reference: Reference
    settings: DriftSettings
    alpha: float
    """The chance that one test may have of being wrong."""
    psi: Floats
    """By feature."""


@dataclass(frozen=True, slots=True)
class _Window:
    """One, and how far each of its features is from the reference: arrays [features]."""

    row: Floats
    samples: Floats
    psi: Floats
    psi_least: Floats
    ks: Floats
    g: Floats
    freedom: Floats


def of_devices(
    reference: Reference, tracks: Sequence[DeviceTrack], settings: DriftSettings, scopes: int,
    watched: Callable[[DeviceTrack], bool],
) -> Iterator[tuple[DeviceTrack, Evidence]]:  # fmt: skip
    """Of those with samples enough that drift, or that are `watched` already: of 100,000 devices few
    do. `scopes`: all devices that are looked at.
    """
    held = _held(reference, settings, scopes, settings.device_times)
    for first in range(0, len(tracks), _AT_ONCE):
        chunk = tracks[first : first + _AT_ONCE]
        rows = np.stack([one.window.total() for one in chunk]).astype(np.float64)
        found = distances(reference, rows)
        over = (found.psi >= held.psi).any(axis=1)
        over |= rows[:, MISSING] >= settings.missing_share * np.maximum(rows[:, LOOKED], 1.0)
        for place in np.flatnonzero(weights(rows) >= settings.samples_min).tolist():
            track = chunk[place]
            if over[place] or watched(track):
                window = _window(rows[place], found, place)
                yield track, _evidence(held, window, window)


def of_groups(
    reference: Reference, tracks: Sequence[GroupTrack], settings: DriftSettings, scopes: int,
    watched: Callable[[GroupTrack], bool],
) -> list[Evidence | None]:  # fmt: skip
    """None: too few samples. `watched`: those that may be found to drift no more."""
    held = _held(reference, settings, scopes)
    parts = [one.window.parts(one.speaking) for one in tracks]
    rows = np.stack([
        one.total if one.devices else np.zeros(reference.width) for one in parts
    ])  # fmt: skip
    found = distances(reference, rows)
    counted = weights(rows) >= settings.samples_min
    result: list[Evidence | None] = []
    for place, (track, part) in enumerate(zip(tracks, parts, strict=True)):
        if not counted[place]:
            result.append(None)
            continue
        window = _window(rows[place], found, place)
        rest: _Window | None = window
        if track.devices > 1 and _is_worth_it(held, window, watched(track)):
            rest = _without_any_one(reference, part, window)
        seen = _evidence(held, window, rest)
        over = {
            kind: {one.feature for one in seen.features_of(kind)}
            for kind, reading in seen.readings.items() if reading.is_over
        }  # fmt: skip
        drifting = members.of_group(reference, part, over, settings)
        result.append(replace(seen, samples=part.samples, members=drifting))
    return result


def of_fleet(
    reference: Reference, groups: Sequence[tuple[GroupTrack, Evidence]], settings: DriftSettings
) -> Evidence | None:
    """Of the groups that speak. None: with fewer than two groups its group is named; where one alone
    of several speaks it opens nothing, and says whether it is gone.
    """
    least = float(settings.window_samples)
    spoken = [(track, seen) for track, seen in groups if track.silent < track.devices]
    rows = []
    for track, _ in spoken:
        if not len(track.window):
            continue  # its devices have left
        total = track.window.parts(track.speaking).total
        weight = float(weights(total[None])[0])
        rows.append(total * min(1.0, least / max(weight, 1.0)))
    if len(groups) < 2 or not rows:
        return None
    window = _looked_at(reference, np.sum(rows, axis=0))
    seen = _evidence(_held(reference, settings, 1), window, window if len(spoken) > 1 else None)
    readings, drifting = dict(seen.readings), dict[Kind, tuple[str, ...]]()
    most = settings.drifting_share * len(spoken)
    for kind in KINDS:
        of_kind = [track.name for track, one in spoken if one.readings[kind].is_over]
        unclear = sum(one.readings[kind].is_over or kind not in one.known for _, one in spoken)
        if readings[kind].is_over and len(of_kind) > most:
            drifting[kind] = tuple(sorted(of_kind))
        else:
            readings[kind] = Reading(is_gone=unclear <= most)
    samples = sum(one.samples for _, one in spoken)
    return replace(seen, samples=samples, readings=readings, members=Members(len(spoken), drifting))


def figures(reference: Reference, row: Floats) -> tuple[FeatureDrift, ...]:
    """Of every feature that somebody counted, for people."""
    window = _looked_at(reference, row)
    return tuple(
        _figure(feature, at, window)
        for at, feature in enumerate(reference.features)
        if window.samples[at] > 0
    )


def _evidence(held: _Held, window: _Window, rest: _Window | None) -> Evidence:
    """`rest`: what is left of it without any one device; what drifts and what does no more is told by
    that, and figures are of the whole. None: one of several devices has said all of it. That opens
    nothing; whether it is gone is told by the whole.
    """
    settings, left = held.settings, window if rest is None else rest
    over, overwhelming, there = set[Kind](), set[Kind](), set[Kind]()
    features: list[FeatureDrift] = []
    for at, feature in enumerate(held.reference.features):
        kind, limit = kind_of(feature.name), held.psi[at]
        if left.psi[at] >= settings.gone_share * limit:
            there.add(kind)
        if rest is None or rest.psi_least[at] < limit:
            continue
        p = chance(float(rest.g[at]), int(window.freedom[at]))
        if p >= held.alpha:
            continue
        over.add(kind)
        if rest.psi_least[at] >= settings.overwhelming * limit and p < held.alpha**2:
            overwhelming.add(kind)
        features.append(_figure(feature, at, window))
    known = _known(held, window)
    readings = {
        kind: Reading(kind in over, kind in overwhelming, kind in known - there)
        for kind in (Kind.INPUT, Kind.ANSWER)
    }
    if Kind.INPUT in over:  # then answers follow from inputs
        readings[Kind.ANSWER] = Reading()
    readings[Kind.MISSING] = _missing(
        held, left, opens=rest is not None, closes=Kind.MISSING in known
    )
    features.sort(key=lambda one: (-one.psi, one.feature))
    return Evidence(
        int(window.row[SAMPLES]), readings, tuple(features), missing_share(window.row), known
    )  # fmt: skip


def _known(held: _Held, window: _Window) -> frozenset[Kind]:
    """What was not looked at is not gone: lenses that are covered, sketches of another schema, versions
    without a reference. Features that no device counts do not tell.
    """
    settings = held.settings
    least = min(settings.samples_min, _KNOWN_SHARE * settings.window_samples)
    found = {Kind.MISSING} if window.row[LOOKED] >= least else set[Kind]()
    for kind in (Kind.INPUT, Kind.ANSWER):
        counted = [
            count
            for one, count in zip(held.reference.features, window.samples, strict=True)
            if kind_of(one.name) is kind and count > 0
        ]
        if counted and min(counted) >= least:
            found.add(kind)
    return frozenset(found)


def _missing(held: _Held, left: _Window, *, opens: bool, closes: bool) -> Reading:
    settings, share = held.settings, missing_share(left.row)
    p = binomial_chance(
        int(left.row[MISSING]), int(left.row[LOOKED]), settings.missing_expected
    )  # fmt: skip
    is_over = opens and share >= settings.missing_share and p < held.alpha
    is_far = share >= settings.overwhelming * settings.missing_share and p < held.alpha**2
    return Reading(
        is_over, is_over and is_far,
        closes and share < settings.gone_share * settings.missing_share,
    )  # fmt: skip


def _without_any_one(reference: Reference, parts: Parts, window: _Window) -> _Window | None:
    """The least PSI and G of each feature with any one device left out, and the row with the least
    share of missing inputs; None where there is no other device.
    """
    if len(parts.devices) < 2:
        return None
    rows = parts.without_each()
    found = distances(reference, rows)
    shares = rows[:, MISSING] / np.maximum(rows[:, LOOKED], 1.0)
    return replace(
        window, row=rows[int(np.argmin(shares))], psi=found.psi.min(axis=0),
        psi_least=found.psi_least.min(axis=0),
        g=found.g.min(axis=0),
    )  # fmt: skip


def _is_worth_it(held: _Held, window: _Window, watched: bool) -> bool:
    """Whether to look at it without each device: most windows are far from any bound. Where an alarm
    is on, it is about what is gone.
    """
    times = held.settings.gone_share if watched else 1.0
    return missing_share(window.row) >= times * held.settings.missing_share or bool(
        (window.psi >= times * held.psi).any()
    )


def _held(reference: Reference, settings: DriftSettings, scopes: int, times: float = 1.0) -> _Held:
    """`times`: of the bounds of PSI."""
    alpha = spent(settings, scopes, len(reference.features) + 1)
    limits = [times * bound(one.name, settings) for one in reference.features]
    return _Held(reference, settings, alpha, np.asarray(limits, np.float64))


def _looked_at(reference: Reference, row: Floats) -> _Window:
    return _window(row, distances(reference, row[None]), 0)


def _window(row: Floats, found: Distances, place: int) -> _Window:
    return _Window(
        row, found.samples[place], found.psi[place], found.psi_least[place], found.ks[place], found.g[place],
        found.freedom[place],
    )  # fmt: skip


def _figure(feature: Feature, at: int, window: _Window) -> FeatureDrift:
    return FeatureDrift(
        feature=feature.name, samples=int(window.samples[at]), psi=round(float(window.psi[at]), 4),
        ks=round(float(window.ks[at]), 4),
        p=chance(float(window.g[at]), int(window.freedom[at])),
    )  # fmt: skip
