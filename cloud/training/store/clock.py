"""Leases end by the clocks of those who look at them: each is held against the database's."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, text

from shared.errors import Unavailable


class ClockOff(Unavailable):
    """This machine's clock and the database's are too far apart."""


_CLOCK: Final = {
    "sqlite": text("SELECT (julianday('now') - 2440587.5) * 86400.0"),
    "postgresql": text("SELECT extract(epoch FROM clock_timestamp())"),
}


def check_clock(connection: Connection, now: Callable[[], float], off_s_max: float) -> None:
    """Raises `ClockOff` where `now` is further from the database's clock: whoever is ahead would take
    the jobs of workers that live.
    """
    before = now()
    theirs = float(connection.execute(_CLOCK[connection.dialect.name]).scalar_one())
    ahead_s, behind_s = before - theirs, theirs - now()  # however long the question took
    if max(ahead_s, behind_s) > off_s_max:
        off = f"{ahead_s:.1f} s ahead of" if ahead_s > 0 else f"{behind_s:.1f} s behind"
        raise ClockOff(
            f"this machine's clock is {off} the learning database's, and {off_s_max:g} s are allowed "
            "(training.clock_off_s_max): keep the clocks of both machines synchronised (NTP)"
        )
