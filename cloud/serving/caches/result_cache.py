"""Answers that were given before, by the content of their rows, the model and its version. Pure.

One cache for all models: what is asked for often stays, whichever model it is. Not shared between
threads.
"""

from dataclasses import dataclass

from cloud.serving.caches.content import Key, digest_of
from cloud.serving.caches.counts import LookUps
from cloud.serving.caches.policy import Bounds, Policy, policy_of
from cloud.serving.caches.settings import ResultCacheSettings
from cloud.serving.job import Floats, Outputs, Rows

PLACE_BYTES = 800  # of one entry beside its numbers: key, tuple, arrays' headers, list and dict


@dataclass(frozen=True, slots=True)
class _Kept:
    outputs: Outputs
    at: float
    size_bytes: int


class ResultCache:
    """Times are seconds of one monotonic clock."""

    def __init__(self, settings: ResultCacheSettings) -> None:
        self._fresh_s, self._stale_s = settings.fresh_s, settings.stale_s
        self._rows_max, self._bytes_max = settings.rows_max, settings.input_bytes_max
        self._forgotten: dict[tuple[str, str], int] = {}
        self.look_ups = LookUps()
        self._policy: Policy[Key, _Kept] | None = None
        if settings.policy != "off":
            bounds = Bounds(settings.entries_max, settings.bytes_max)
            self._policy = policy_of(settings.policy, bounds, _bytes_of)

    def __len__(self) -> int:
        return 0 if self._policy is None else len(self._policy)

    @property
    def is_on(self) -> bool:
        return self._policy is not None

    def key(self, model: str, version: str, rows: Rows) -> Key | None:
        """What `rows` are known by, or None where they are not to be cached."""
        if self._policy is None or len(rows) > self._rows_max or rows.nbytes > self._bytes_max:
            return None
        times = self._forgotten.get((model, version), 0)
        return (model, version, times, rows.shape, rows.dtype.str, digest_of(rows))

    def fresh(self, key: Key, now: float) -> Outputs | None:
        """The answer, as good as one computed now; its arrays are read-only."""
        found = self._younger(key, now - self._fresh_s)
        if found is None:
            self.look_ups.missed += 1
        else:
            self.look_ups.fresh += 1
        return found

    def stale(self, key: Key, now: float) -> Outputs | None:
        """The answer as it once was, for when the model cannot give one."""
        found = self._younger(key, now - self._stale_s)
        if found is None:
            self.look_ups.stale_missed += 1
        else:
            self.look_ups.stale += 1
        return found

    def keep(self, key: Key, outputs: Outputs, now: float) -> None:
        """Remember what the model answered; copies it, since it may be a view of a whole batch."""
        if self._policy is None:
            return
        logits, probabilities = _copy(outputs.logits), _copy(outputs.probabilities)
        size_bytes = logits.nbytes + probabilities.nbytes + PLACE_BYTES
        self._policy.put(key, _Kept(Outputs(logits, probabilities), now, size_bytes))

    def forget(self, model: str, version: str) -> None:
        """From now on nothing that was kept for this version is found: it is loaded anew.

        Version numbers are for ever, but on a developer's machine a bundle is built twice. An
        answer still under way is kept under its old key, so it is not found either.
        """
        place = (model, version)
        self._forgotten[place] = self._forgotten.get(place, 0) + 1

    def _younger(self, key: Key, than: float) -> Outputs | None:
        kept = None if self._policy is None else self._policy.get(key)
        return None if kept is None or kept.at < than else kept.outputs


def _bytes_of(kept: _Kept) -> int:
    return kept.size_bytes


def _copy(array: Floats) -> Floats:
    copied = array.copy()
    copied.flags.writeable = False
    return copied
