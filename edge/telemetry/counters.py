"""Counts by name since the process started; read by the metrics endpoint."""

from collections import Counter


class Counters:
    """Used on the event loop alone, so it needs no lock."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        self._counts[name] += count

    def snapshot(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))
