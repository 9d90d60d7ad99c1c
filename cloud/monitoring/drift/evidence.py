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


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one scope's window."""

    samples: int
    readings: dict[Kind, Reading]
    features: tuple[FeatureDrift, ...]
    """Those that are over their bounds, the farthest first."""
    missing_share: float
    members: Members = field(default_factory=Members)
    """For a group its devices, for the fleet its groups."""

    def features_of(self, kind: Kind) -> tuple[FeatureDrift, ...]:
        return tuple(one for one in self.features if kind_of(one.feature) is kind)


def of_devices(
    reference: Reference, tracks: Sequence[DeviceTrack], settings: DriftSettings, scopes: int,
    watched: Callable[[DeviceTrack], bool],
) -> Iterator[tuple[DeviceTrack, Evidence]]:  # fmt: skip
    """Of those with samples enough that drift, or that are `watched` already: of 100,000 devices few
    do. `scopes`: all devices that are looked at.
    """
    for first in range(0, len(tracks), _AT_ONCE):
        chunk = tracks[first : first + _AT_ONCE]
        yield from _of_devices(reference, chunk, settings, scopes, watched)


def _of_devices(
    reference: Reference, tracks: Sequence[DeviceTrack], settings: DriftSettings, scopes: int,
    watched: Callable[[DeviceTrack], bool],
) -> Iterator[tuple[DeviceTrack, Evidence]]:  # fmt: skip
    rows = np.stack([one.window.total() for one in tracks]).astype(np.float64)
    found = distances(reference, rows)
    alpha, times = _alpha(reference, settings, scopes), settings.device_times
    limits = np.asarray([times * bound(one.name, settings) for one in reference.features])
    over = (found.psi >= limits).any(axis=1) if limits.size else np.zeros(len(rows), bool)
    over |= rows[:, MISSING] >= settings.missing_share * np.maximum(rows[:, LOOKED], 1.0)
    counted = weights(rows) >= settings.samples_min
    for place in np.flatnonzero(counted).tolist():
        track = tracks[place]
        if over[place] or watched(track):
            worst = found.psi[place], found.g[place]
            yield (
                track,
                _evidence(
                    reference, rows[place], found, place, settings, alpha, worst, times=times
                ),
            )


def of_groups(
    reference: Reference, tracks: Sequence[GroupTrack], settings: DriftSettings, scopes: int,
    watched: Callable[[GroupTrack], bool],
) -> list[Evidence | None]:  # fmt: skip
    """None: too few samples. `watched`: those that may be found to drift no more."""
    parts = [one.window.parts(one.speaking) for one in tracks]
    rows = np.stack([
        one.total if one.devices else np.zeros(reference.width) for one in parts
    ])  # fmt: skip
    found = distances(reference, rows)
    alpha = _alpha(reference, settings, scopes)
    counted = weights(rows) >= settings.samples_min
    result: list[Evidence | None] = []
    for place, (track, part) in enumerate(zip(tracks, parts, strict=True)):
        if not counted[place]:
            result.append(None)
            continue
        worst = found.psi[place], found.g[place]
        row = rest = rows[place]
        psi, times = found.psi[place], settings.gone_share if watched(track) else 1.0
        if track.devices > 1 and _suspicious(reference, psi, row, settings, times):
            worst, row = _without_one(reference, part, row)
            if len(part.devices) > 1:
                psi, rest = worst[0], row
        seen = _evidence(
            reference, row, found, place, settings, alpha, worst, rows[place], (psi, rest)
        )
        result.append(_with_members(reference, seen, part, settings))
    return result


def of_fleet(
    reference: Reference, groups: Sequence[tuple[GroupTrack, Evidence]], settings: DriftSettings
) -> Evidence | None:
    """None: with fewer than two groups its group is named."""
    if len(groups) < 2:
        return None
    least = float(settings.window_samples)
    rows = []
    for track, _ in groups:
        if not len(track.window):
            continue  # its devices have left
        total = track.window.parts(track.speaking).total
        weight = float(weights(total[None])[0])
        rows.append(total * min(1.0, least / max(weight, 1.0)))
    if not rows:
        return None
    row = np.sum(rows, axis=0)
    found = distances(reference, row[None])
    alpha = _alpha(reference, settings, 1)
    seen = _evidence(
        reference, row, found, 0, settings, alpha, (found.psi[0], found.g[0])
    )  # fmt: skip
    readings, drifting = dict(seen.readings), dict[Kind, tuple[str, ...]]()
    for kind in KINDS:
        of_kind = [track.name for track, one in groups if one.readings[kind].is_over]
        if readings[kind].is_over and len(of_kind) > settings.drifting_share * len(groups):
            drifting[kind] = tuple(sorted(of_kind))
        else:
            readings[kind] = Reading(is_gone=len(of_kind) <= settings.drifting_share * len(groups))
    samples = sum(one.samples for _, one in groups)
    return replace(seen, samples=samples, readings=readings, members=Members(len(groups), drifting))


def figures(reference: Reference, row: Floats) -> tuple[FeatureDrift, ...]:
    """Of every feature that somebody counted, for people."""
    found = distances(reference, row[None])
    return tuple(
        _figure(feature, found, 0, place, found.psi[0, place], found.g[0, place])
        for place, feature in enumerate(reference.features)
        if found.samples[0, place] > 0
    )


def _evidence(
    reference: Reference, row: Floats, found: Distances, place: int, settings: DriftSettings,
    alpha: float, worst: tuple[Floats, Floats], whole: Floats | None = None,
    rest: tuple[Floats, Floats] | None = None, times: float = 1.0,
) -> Evidence:  # fmt: skip
    """`worst`: PSI and G of each feature, as far as they stand without any one device; `row` gives
    what is missing in the same way. `whole`: the window with all of them. `rest`: PSI and row by which
    it is gone: one device that drifts still keeps up no group's alarm, but where it is the only one
    that speaks. `times`: of the bounds.
    """
    whole = row if whole is None else whole
    calm, calm_row = (found.psi[place], whole) if rest is None else rest
    over: dict[Kind, bool] = {}
    overwhelming: dict[Kind, bool] = {}
    gone: dict[Kind, bool] = dict.fromkeys((Kind.INPUT, Kind.ANSWER), True)
    features: list[FeatureDrift] = []
    for at, feature in enumerate(reference.features):
        kind, limit = kind_of(feature.name), times * bound(feature.name, settings)
        if calm[at] >= settings.gone_share * limit:
            gone[kind] = False
        psi, g = float(worst[0][at]), float(worst[1][at])
        if psi < limit or (p := chance(g, int(found.freedom[place, at]))) >= alpha:
            continue
        over[kind] = True
        if psi >= settings.overwhelming * limit and p < alpha * alpha:
            overwhelming[kind] = True
        features.append(
            _figure(feature, found, place, at, found.psi[place, at], found.g[place, at])
        )
    readings = {
        kind: Reading(over.get(kind, False), overwhelming.get(kind, False), gone[kind])
        for kind in (Kind.INPUT, Kind.ANSWER)
    }
    if readings[Kind.INPUT].is_over:  # then answers follow from inputs
        readings[Kind.ANSWER] = Reading()
    readings[Kind.MISSING] = _missing(row, calm_row, settings, alpha)
    features.sort(key=lambda one: (-one.psi, one.feature))
    return Evidence(
        int(whole[SAMPLES]), readings, tuple(features),
        missing_share(whole),
    )  # fmt: skip


def _missing(row: Floats, rest: Floats, settings: DriftSettings, alpha: float) -> Reading:
    share, looked = missing_share(row), int(row[LOOKED])
    p = binomial_chance(int(row[MISSING]), looked, settings.missing_expected)
    is_over = share >= settings.missing_share and p < alpha
    return Reading(
        is_over, is_over and share >= settings.overwhelming * settings.missing_share and p < alpha**2,
        missing_share(rest) < settings.gone_share * settings.missing_share,
    )  # fmt: skip


def _without_one(
    reference: Reference, parts: Parts, total: Floats
) -> tuple[tuple[Floats, Floats], Floats]:
    """The least PSI and G of each feature with any one device left out, and the row with the least
    share of missing inputs.
    """
    count = len(reference.features)
    if len(parts.devices) < 2:  # one device has said all of it
        return (np.zeros(count), np.zeros(count)), np.zeros_like(total)
    rows = parts.without_each()
    found = distances(reference, rows)
    shares = rows[:, MISSING] / np.maximum(rows[:, LOOKED], 1.0)
    return (found.psi.min(axis=0), found.g.min(axis=0)), rows[int(np.argmin(shares))]


def _with_members(
    reference: Reference, seen: Evidence, parts: Parts, settings: DriftSettings
) -> Evidence:
    """Which devices drift by themselves, where something does."""
    over = {
        kind: {one.feature for one in seen.features_of(kind)}
        for kind, reading in seen.readings.items() if reading.is_over
    }  # fmt: skip
    found = members.of_group(reference, parts, over, settings)
    return replace(seen, samples=parts.samples, members=found)


def _suspicious(
    reference: Reference, psi: Floats, row: Floats, settings: DriftSettings, times: float
) -> bool:
    """Whether it is worth looking at without each device: most windows are not. `times`: of the bounds."""
    return missing_share(row) >= times * settings.missing_share or any(
        psi[at] >= times * bound(feature.name, settings)
        for at, feature in enumerate(reference.features)
    )


def _figure(
    feature: Feature, found: Distances, place: int, at: int, psi: float, g: float
) -> FeatureDrift:
    return FeatureDrift(
        feature=feature.name, samples=int(found.samples[place, at]), psi=round(float(psi), 4),
        ks=round(float(found.ks[place, at]), 4),
        p=chance(float(g), int(found.freedom[place, at])),
    )  # fmt: skip


def _alpha(reference: Reference, settings: DriftSettings, scopes: int) -> float:
    return spent(settings, scopes, len(reference.features) + 1)
