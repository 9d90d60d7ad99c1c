"""The agent's own time, by which persisted deadlines are kept: a wall clock that jumps moves it
by a bounded amount, once.

While the machine runs it is the monotonic clock, across restarts of the process too. Only over a
reboot does the wall clock say how long the machine was off: never less than nothing, and never
more than `gap_s_max`, since a long absence cannot be told from a clock that was wrong. With half
the asynchronous deadline as `gap_s_max`, an hour's reboot counts as an hour, and a clock that
wakes up in another year costs a sample half of its time, not all of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stamp:
    """One instant by every clock there is, as it was last written to disk."""

    boot: str  # the kernel's boot id; "" where there is none
    monotonic_s: float
    wall_s: float
    agent_s: float


def resumed(last: Stamp | None, now: Stamp, gap_s_max: float) -> Stamp:
    """`now` with the agent's time filled in, which never runs backwards."""
    if last is None:
        agent_s = 0.0
    elif now.boot and last.boot == now.boot and now.monotonic_s >= last.monotonic_s:
        agent_s = last.agent_s + (now.monotonic_s - last.monotonic_s)
    else:
        agent_s = last.agent_s + min(max(now.wall_s - last.wall_s, 0.0), gap_s_max)
    return Stamp(now.boot, now.monotonic_s, now.wall_s, agent_s)
