"""Devices that say nothing: how many of a group, and of the fleet, at a look. Pure."""

from collections.abc import Sequence
from functools import partial

from cloud.monitoring.drift import opened
from cloud.monitoring.drift.alarms import Reading
from cloud.monitoring.drift.board import FLEET, Board, Change, scope_of
from cloud.monitoring.drift.documents import Cause, Kind
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import Of
from cloud.monitoring.drift.tracks import Tracks


def look(
    tracks: Tracks, board: Board, settings: DriftSettings, now: float, changes: list[Change]
) -> None:
    """Groups first, of each version; the fleet's where most of its groups fall silent."""
    silent = tracks.silent(now)
    shares: dict[Of, list[float]] = {}
    for key, group in tracks.groups.items():
        scope = scope_of("group", *key)
        names, devices = silent.get(key, []), group.devices
        share = len(names) / max(1, devices)
        if devices > 0:
            shares.setdefault(key[1], []).append(share)
        if not names and not board.watches(Kind.STALE, scope):
            continue
        cause = Cause.SENSOR if len(names) == 1 < devices else (
            Cause.SCENE if share >= 0.5 else Cause.UNKNOWN
        )  # fmt: skip
        make = partial(opened.by_silence, scope, names, cause, now)
        board.step(Kind.STALE, scope, _reading(settings, [share], 0), make, now, changes)
    for of, found in shares.items():
        scope = scope_of("fleet", FLEET, of)
        if len(found) < 2 or not (any(found) or board.watches(Kind.STALE, scope)):
            continue
        names = [name for key, some in silent.items() if key[1] == of for name in some]
        make = partial(opened.by_silence, scope, names, Cause.UNKNOWN, now)
        reading = _reading(settings, found, settings.drifting_share * len(found))
        if board.is_new(now):  # most groups have not been heard yet
            reading = Reading(is_gone=reading.is_gone)
        board.step(Kind.STALE, scope, reading, make, now, changes)


def _reading(settings: DriftSettings, shares: Sequence[float], most: float) -> Reading:
    """`shares` of groups' devices are silent; it is too many where they are in over `most` of them."""
    limit = settings.silent_share
    is_over = sum(share >= limit for share in shares) > most
    rest = sum(share >= settings.gone_share * limit for share in shares)
    return Reading(is_over, is_over, is_gone=rest <= most)
