"""Who is online, and who comes and goes too often. Pure.

A device that flaps is kept out of new rollouts for a while that doubles with each time: its silence
would say nothing about the new version.
"""

from dataclasses import dataclass, replace

from cloud.fleet.device_settings import PresenceSettings


@dataclass(frozen=True, slots=True)
class PresenceState:
    """Of one device. Times are Unix seconds by the region's clock."""

    online: bool = False
    since: float | None = None
    changes: tuple[float, ...] = ()
    """The newest, rising; at most as many as quarantine takes."""
    strikes: int = 0
    """Quarantines for flapping so far."""
    struck_at: float | None = None


def changed(
    state: PresenceState, online: bool, now: float, settings: PresenceSettings
) -> tuple[PresenceState, float | None]:
    """After a birth or a will; and until when it is quarantined, where it now is.

    Only changes count: a broker that tells the same again, after a new connection, changes nothing.
    """
    if state.since is not None and online == state.online:
        return state, None
    if state.since is None:  # its first word
        return replace(state, online=online, since=now), None
    # what lies in the future was before the clock was set back
    recent = (*(at for at in state.changes if now - settings.window_s < at <= now), now)
    state = replace(state, online=online, since=now, changes=recent[-settings.changes_max - 1 :])
    if len(recent) <= settings.changes_max:
        return state, None
    calm = state.struck_at is None or not 0 <= now - state.struck_at <= settings.forget_s
    strikes = 1 if calm else state.strikes + 1
    # the exponent has a bound of its own: a float ends at 2**1024
    wait_s = min(settings.quarantine_s * 2.0 ** min(strikes - 1, 30), settings.quarantine_s_max)
    return replace(state, changes=(), strikes=strikes, struck_at=now), now + wait_s


def flaps(state: PresenceState, now: float, window_s: float) -> int:
    """Comings and goings within the window."""
    return sum(now - window_s < at <= now for at in state.changes)
