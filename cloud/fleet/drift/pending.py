"""Reports that wait for a look at them: the newest of each life and version of a device, in order. Pure.

A report has those of its tally before it in it; counters begin anew with the next life or version, so
what comes then replaces nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shared.fleet.telemetry import Telemetry

LIVES_MAX: Final = 8
"""Of one device: one that restarts all the time leaves room to the others."""
_Tally = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    device: str
    report: Telemetry
    at: float
    """When it came: what a device can have done is judged by that."""

    @property
    def tally(self) -> _Tally:
        """Counters begin anew with each."""
        return self.report.boot, self.report.tally.started


class Pending:
    def __init__(self, most: int) -> None:
        self._most = most
        self._by_device: dict[str, dict[_Tally, Waiting]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, one: Waiting) -> bool:
        """False: something had no room, itself or the device's oldest report."""
        own = self._by_device.get(one.device, {})
        if (present := own.get(one.tally)) is not None:
            if one.report.sequence > present.report.sequence:
                own[one.tally] = one
            return True
        is_lost = len(own) >= LIVES_MAX or self._count >= self._most
        if is_lost:
            if not own:
                return False
            del own[next(iter(own))]
            self._count -= 1
        self._by_device.setdefault(one.device, own)[one.tally] = one
        self._count += 1
        return not is_lost

    def take(self) -> list[Waiting]:
        """All; of each device in the order in which they came."""
        taken = [one for own in self._by_device.values() for one in own.values()]
        self._by_device, self._count = {}, 0
        return taken

    def put_back(self, taken: Iterable[Waiting]) -> int:
        """Before those that have come since; of how many something was lost."""
        newer = self.take()
        return sum(not self.add(one) for one in (*taken, *newer))
