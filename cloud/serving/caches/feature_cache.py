"""What a backbone made of rows before, for every head that shares it. Pure.

Features do not age: a backbone's version says the same to the same rows. Not shared between threads.
"""

from dataclasses import dataclass

from cloud.serving.caches.content import Key, digest_of
from cloud.serving.caches.counts import LookUps
from cloud.serving.caches.policy import Bounds, Policy, policy_of
from cloud.serving.caches.result_cache import PLACE_BYTES
from cloud.serving.caches.settings import FeatureCacheSettings
from cloud.serving.job import Floats, Rows


@dataclass(frozen=True, slots=True)
class Owner:
    """A loaded backbone; `load` tells two loads of one version apart."""

    name: str
    version: str
    load: int = 0


class FeatureCache:
    """One for all backbones."""

    def __init__(self, settings: FeatureCacheSettings) -> None:
        self._rows_max, self._bytes_max = settings.rows_max, settings.input_bytes_max
        self.look_ups = LookUps()
        self._policy: Policy[Key, Floats] | None = None
        if settings.policy != "off":
            bounds = Bounds(settings.entries_max, settings.bytes_max)
            self._policy = policy_of(settings.policy, bounds, _bytes_of)

    def __len__(self) -> int:
        return 0 if self._policy is None else len(self._policy)

    def key(self, owner: Owner, rows: Rows) -> Key | None:
        """What `rows` are known by, or None where they are too many to be cached or shared."""
        if len(rows) > self._rows_max or rows.nbytes > self._bytes_max:
            return None
        digest = digest_of(rows)
        return (owner.name, owner.version, owner.load, rows.shape, rows.dtype.str, digest)

    def find(self, key: Key) -> Floats | None:
        """Features [n, features], read-only; counted when there are some."""
        found = None if self._policy is None else self._policy.get(key)
        if found is not None:
            self.look_ups.fresh += 1
        return found

    def keep(self, key: Key, features: Floats) -> None:
        """Remember a copy: what is given may be a view of a whole batch."""
        if self._policy is None:
            return
        copied = features.copy()
        copied.flags.writeable = False
        self._policy.put(key, copied)


def _bytes_of(features: Floats) -> int:
    return features.nbytes + PLACE_BYTES
