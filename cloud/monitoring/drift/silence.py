"""Devices that say nothing: how many of a group, and of the fleet, at a look. Pure.

Of a group's devices, whatever version of the model they run: what a rollout leaves behind has few
devices or one, and where that is dead it is still only one of the group.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from cloud.monitoring.drift import opened
from cloud.monitoring.drift.alarms import Reading
from cloud.monitoring.drift.board import FLEET, Board, Change, scope_of
from cloud.monitoring.drift.documents import Cause, Kind
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.track import Of
from cloud.monitoring.drift.tracks import Tracks

_Key = tuple[str, Of]
"""A group and a version."""


def look(
    tracks: Tracks, board: Board, settings: DriftSettings, now: float, changes: list[Change]
) -> None:
    """Groups first, of each version; the fleet's where most of its groups fall silent."""
    names = tracks.silent(now)
    silent = {key: len(some) for key, some in names.items()}
    devices = {key: group.devices for key, group in tracks.groups.items()}
    silent_of, devices_of = _by_model(silent), _by_model(devices)
    shares = {at: silent_of[at] / count for at, count in devices_of.items() if count > 0}
    for key in devices:
        scope, own = scope_of("group", *key), names.get(key, [])
        if not own and not board.watches(Kind.STALE, scope):
            continue
        at = (key[0], key[1][0])
        share = shares.get(at, 0.0) if key in silent else 0.0
        cause = Cause.SENSOR if len(own) == silent_of[at] == 1 < devices_of[at] else (
            Cause.SCENE if share >= 0.5 else Cause.UNKNOWN
        )  # fmt: skip
        make = partial(opened.by_silence, scope, own, cause, now)
        board.step(Kind.STALE, scope, _reading(settings, [share], 0), make, now, changes)
    for of, groups in Counter(of for (_, of), count in devices.items() if count > 0).items():
        scope, is_silent = scope_of("fleet", FLEET, of), any(its == of for _, its in silent)
        if groups < 2 or not (is_silent or board.watches(Kind.STALE, scope)):
            continue
        found = [share for (_, model), share in shares.items() if model == of[0] and is_silent]
        own = [name for (_, its), some in names.items() if its == of for name in some]
        make = partial(opened.by_silence, scope, own, Cause.UNKNOWN, now)
        reading = _reading(settings, found, settings.drifting_share * len(found))
        if board.is_new(now):  # most groups have not been heard yet
            reading = Reading(is_gone=reading.is_gone)
        board.step(Kind.STALE, scope, reading, make, now, changes)


def _by_model(counts: Mapping[_Key, float]) -> defaultdict[tuple[str, str], float]:
    """Of each group and model, over its versions."""
    found = defaultdict[tuple[str, str], float](float)
    for (group, (model, _)), count in counts.items():
        found[group, model] += count
    return found


def _reading(settings: DriftSettings, shares: Sequence[float], most: float) -> Reading:
    """`shares` of groups' devices are silent; it is too many where they are in over `most` of them."""
    limit = settings.silent_share
    is_over = sum(share >= limit for share in shares) > most
    rest = sum(share >= settings.gone_share * limit for share in shares)
    return Reading(is_over, is_over, is_gone=rest <= most)
