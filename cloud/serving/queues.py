"""What a model's requests go through: its own batcher, or its backbone's and then its own."""

import weakref

from cloud.serving.backbone import Backbone
from cloud.serving.caches.feature_cache import FeatureCache, Owner
from cloud.serving.inference import Queue
from cloud.serving.job import Job, Priority
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from cloud.serving.split import Split, check_fits


class Queues:
    """Belongs to one event loop."""

    def __init__(self, pool: ModelPool, features: FeatureCache) -> None:
        self._pool, self._features = pool, features
        self._backbones: dict[int, Backbone] = {}  # by the `id` of a `Served` that lives
        self._loads = 0

    def of(self, served: Served) -> Queue:
        """Raises what finding its backbone raises, or `Malformed` for one that does not fit."""
        named = served.manifest.backbone
        if named is None:
            return served.batcher
        backbone = self._pool.find(named.name, named.version)
        check_fits(served.manifest, backbone.manifest)
        return _Cut(self._backbone(backbone), backbone, served)

    def _backbone(self, served: Served) -> Backbone:
        found = self._backbones.get(id(served))
        if found is None:
            self._loads += 1  # a version that was loaded anew may differ
            owner = Owner(served.name, served.version, self._loads)
            found = self._backbones[id(served)] = Backbone(owner, served.batcher, self._features)
            weakref.finalize(served, self._backbones.pop, id(served), None)
        return found


class _Cut:
    """Holds on to the backbone: while its head is here, it is not closed."""

    def __init__(self, backbone: Backbone, served: Served, head: Served) -> None:
        self._split = Split(backbone, head.batcher, head.model.curve.cost_s)
        self._served, self._head = served, head.batcher

    def submit(self, job: Job) -> None:
        self._split.submit(job)

    def rows_max(self, priority: Priority) -> int:
        return min(self._head.rows_max(priority), self._served.batcher.rows_max(priority))

    def alone_s(self, rows: int, priority: Priority) -> float:
        first = self._served.batcher.alone_s(rows, priority)
        return first + self._head.alone_s(rows, priority)

    def patience_s(self, priority: Priority) -> float:
        return self._head.patience_s(priority)
