"""The newest window of each scope, as the API gives it. Pure; asked for page by page."""

import heapq
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from cloud.monitoring.drift import evidence
from cloud.monitoring.drift.accuracy import Strata, estimate
from cloud.monitoring.drift.board import FLEET, scope_of
from cloud.monitoring.drift.documents import ScopeState
from cloud.monitoring.drift.reference import (
    ESCALATED,
    LOOKED,
    MISSING,
    NOVEL,
    SAMPLES,
    Reference,
)
from cloud.monitoring.drift.track import GroupTrack, Of
from cloud.monitoring.drift.watch import Watch

ScopeKind = Literal["device", "group", "fleet"]
_ORDER: Final[tuple[ScopeKind, ...]] = ("fleet", "group", "device")
_Place = tuple[int, str, str, str]
"""By kind, name, model, version: the order of pages."""


def page(
    watch: Watch, kind: ScopeKind | None, name: str | None, model: str | None, after: str,
    limit: int,
) -> tuple[list[ScopeState], str | None]:  # fmt: skip
    """Those after `after`, and after which one to go on, None at the end.

    Raises `ValueError` for an `after` that no page gave.
    """
    last = _place(after) if after else None
    wanted = (
        place for place in _places(watch, kind)
        if (last is None or place > last) and name in {None, place[1]} and model in {None, place[2]}
    )  # fmt: skip
    found = heapq.nsmallest(limit + 1, wanted)
    states = [_state(watch, place) for place in found[:limit]]
    following = None
    if len(found) > limit:
        order, *rest = found[limit - 1]
        following = "/".join((_ORDER[order], *rest))
    return states, following


def _place(text: str) -> _Place:
    kind, name, model, version = text.split("/")
    return [*map(str, _ORDER)].index(kind), name, model, version


def _places(watch: Watch, kind: ScopeKind | None) -> Iterator[_Place]:
    tracks = watch.tracks
    if kind in {None, "fleet"}:
        yield from ((0, FLEET, *of) for of in tracks.references)
    if kind in {None, "group"}:
        yield from ((1, group, *of) for group, of in tracks.groups)
    if kind in {None, "device"}:
        yield from ((2, name, *one.of) for name, one in tracks.devices.items())


def _state(watch: Watch, place: _Place) -> ScopeState:
    order, name, *rest = place
    of = (rest[0], rest[1])
    tracks = watch.tracks
    reference = tracks.references[of]
    if order == 2:
        device = tracks.devices[name]
        row = device.window.total().astype(np.float64)
        return _made(reference, order, name, row, None, 1, device.heard_at)
    groups = [one for one in tracks.of_version(of) if order == 0 or one.name == name]
    row, devices = _summed(reference, groups)
    strata = Strata()
    for group in groups:
        strata.merge(group.audits.total())
    heard_at = max((one.heard_at for one in groups), default=0.0)
    return _made(reference, order, name, row, strata, devices, heard_at)


def _summed(reference: Reference, groups: list[GroupTrack]) -> tuple[NDArray[np.float64], int]:
    row, devices = np.zeros(reference.width), 0
    for group in groups:
        parts = group.window.parts(group.speaking)
        if parts.devices:
            row += parts.total
            devices += len(parts.devices)
    return row, devices


def _made(
    reference: Reference, order: int, name: str, row: NDArray[np.float64], strata: Strata | None,
    devices: int, heard_at: float,
) -> ScopeState:  # fmt: skip
    of: Of = (reference.model, reference.version)
    samples, looked = max(row[SAMPLES], 1.0), max(row[LOOKED], 1.0)
    return ScopeState(
        scope=scope_of(_ORDER[order], name, of), samples=round(float(row[SAMPLES])),
        features=evidence.figures(reference, row),
        missing_share=_share(row[MISSING] / looked), novel_share=_share(row[NOVEL] / samples),
        escalated_share=_share(row[ESCALATED] / samples),
        accuracy=None if strata is None else estimate(strata, reference.expected_accuracy),
        devices=devices, updated_at=heard_at,
    )  # fmt: skip


def _share(value: float) -> float:
    return min(1.0, round(float(value), 4))
