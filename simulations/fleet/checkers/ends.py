"""(4) What ended for a device within an attempt stays ended, but for being undone.

Silent and left are no such ends: a device that comes back takes its place again (docs/rollouts.md).
"""

from typing import Final

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import Changes
from cloud.rollouts.machine import Rollout
from simulations.fleet.checkers.watcher import Watcher

_ENDS: Final = frozenset({Phase.REJECTED, Phase.FAILED, Phase.ROLLED_BACK, Phase.TIMED_OUT})
_AFTER: Final = frozenset({Phase.UNDOING, Phase.UNDONE})
_OVER: Final = frozenset(
    {RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK, RolloutStatus.SUCCEEDED}
)


class Ends(Watcher):
    name = "ends never reopen"

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], tuple[int, Phase]] = {}
        self._status: dict[str, RolloutStatus] = {}

    def stepped(self, rollout: Rollout, changes: Changes) -> None:
        for device in changes.devices:
            self._look(rollout, device)
        self._look_at_head(rollout)

    def restored(self, rollout: Rollout) -> None:
        """What was not committed is forgotten; what was is as it was."""
        for key in [key for key in self._ended if key[0] == rollout.id]:
            del self._ended[key]
        self._status.pop(rollout.id, None)
        for one in rollout.devices():
            self._look(rollout, one.device)

    def _look(self, rollout: Rollout, device: str) -> None:
        key, one = (rollout.id, device), rollout.device(device)
        assert one is not None
        ended = self._ended.get(key)
        if ended is not None and ended[0] == one.attempt:
            _, before = ended
            if one.phase is not before and one.phase not in _AFTER:
                raise self.broken(f"{device} was {before} and is {one.phase} in one attempt")
            if before is Phase.UNDONE and one.phase not in _AFTER:
                raise self.broken(f"{device} was undone and is {one.phase}")
        if one.phase is Phase.UNDOING:
            self._ended.pop(key, None)  # perhaps once more: the version before did not last on it
        if one.phase in _ENDS or one.phase is Phase.UNDONE:
            self._ended[key] = one.attempt, one.phase

    def _look_at_head(self, rollout: Rollout) -> None:
        before = self._status.get(rollout.id)
        status = rollout.status
        if before in (RolloutStatus.SUCCEEDED, RolloutStatus.ROLLED_BACK) and status is not before:
            raise self.broken(f"{rollout.id} was {before} and is {status}")
        if status in _OVER:
            self._status[rollout.id] = status
