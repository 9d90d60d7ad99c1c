"""How long what the fleet asks for has been missing in the signed metadata. Pure: `now` is given."""

from edge.updates.target import Target


class Missing:
    def __init__(self, s_max: float) -> None:
        """Seconds until missing is a failure."""
        self._s_max = s_max
        self._target: Target | None = None
        self._since = 0.0
        self.looks = 0  # that missed it
        self.soon = False
        """Another look is worth it before the next regular one."""

    def note(self, target: Target | None, now: float) -> bool:
        """The target that a look did not find (None: it found all), and whether to be patient."""
        if target is None or not target.same_try(self._target):
            self._since, self.looks = now, 0
        self._target = target
        self.looks += target is not None
        self.soon = target is not None and now - self._since < self._s_max
        return self.soon
