"""Whether the broker still has what it retained, and what to do if not. Pure; `now` is given.

Desired state is retained, and devices read it from the broker alone, so a broker that lost its
memory (a new one, a disk) must be told all of it again. The fleet's user may not read what it tells
devices; so it keeps a retained message of its own, `hy/v1/fleet/up/state`, written when everything
is published, and looks after each connection whether it is there. The right to do so comes with
`firmware_configs/broker/acl.conf`, where each user has the topics of its own name. A device cannot
be called `fleet`.
"""

from typing import Final, Literal

OWN_NAME: Final = "fleet"
LOOK_S: Final = 3.0
"""Retained messages come at once after the subscription; a slow link needs a second."""
AGAIN_S: Final = 60.0
"""Between two times that everything is published because the broker seemed to have forgotten: a
broker that denies the own message would have it with each connection."""


class BrokerMemory:
    def __init__(self) -> None:
        self._up_at: float | None = None
        self._is_known = False
        self._told_at: float | None = None

    def connected(self, now: float) -> None:
        self._up_at, self._is_known = now, False

    def lost(self) -> None:
        self._up_at = None

    def seen(self) -> None:
        """The own message came: the broker remembers."""
        self._is_known = True

    def due_s(self, now: float) -> float | None:
        """In how many seconds `next_step` may have something to say; None: not before a change."""
        if self._up_at is None or self._is_known:
            return None
        ready = self._up_at + LOOK_S
        if self._told_at is not None and self._told_at < self._up_at:
            ready = max(ready, self._told_at + AGAIN_S)
        return max(0.0, ready - now)

    def next_step(self, now: float, is_published: bool) -> Literal["all", "mark"] | None:
        """all: publish everything again; mark: everything is published, write the own message."""
        if self._up_at is None or self._is_known or self.due_s(now):
            return None
        if self._told_at is None or self._told_at < self._up_at:
            self._told_at = now
            return "all"
        return "mark" if is_published else None
