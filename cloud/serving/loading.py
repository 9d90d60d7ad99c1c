"""From a bundle on disk to a model that serves. Takes seconds, so it belongs in a thread."""

import logging
from collections.abc import Callable
from pathlib import Path

from cloud.config import Batching, ModelSettings
from cloud.serving.batcher import Batcher
from cloud.serving.catalog import Served
from cloud.serving.model import LoadedModel
from shared.bundle.reader import open_bundle
from shared.engines.known import known_engines
from shared.engines.ranking import choose

log = logging.getLogger(__name__)


def load(
    settings: ModelSettings,
    batching: Batching,
    cache_dir: Path,
    on_batch: Callable[[int, float], None],
) -> Served:
    """Verify, open, check against the golden samples, warm up, measure."""
    bundle = open_bundle(settings.bundle)
    choice = choose(
        bundle, known_engines(), wanted=None if settings.engine == "auto" else settings.engine,
        threads=settings.threads, cache_dir=cache_dir, batch_max=batching.size_max,
    )  # fmt: skip
    model = LoadedModel(bundle, choice, size_max=batching.size_max)
    log.info(
        "model_loaded",
        extra={
            "model": model.name, "version": model.version, "variant": model.variant,
            "why": model.why, "batch_ms": model.curve.table_ms(),
            "others": {v.variant.key: v.reason for v in choice.verdicts if not v.chosen},
        },
    )  # fmt: skip
    batcher = Batcher(
        model.predict, model.curve,
        size_max=batching.size_max, wait_s_max=batching.wait_ms_max / 1e3,
        depth_max=batching.depth_max, on_batch=on_batch,
    )  # fmt: skip
    return Served(model, batcher)
