"""How a version comes into being, by the settings of its pool."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cloud.serving.batcher import INLINE_S_MAX, Batcher
from cloud.serving.loading import Loaded, estimate_bytes, load
from cloud.serving.pool_sources import Source
from cloud.serving.served import Served
from cloud.serving.settings import Batching
from shared.bundle.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Make:
    """`load` blocks for seconds and is called in a thread; `serve` belongs to the event loop."""

    estimate_bytes: Callable[[Source], int]
    load: Callable[[Source, Manifest | None], Loaded]  # with its backbone's manifest, for a head
    serve: Callable[[Source, Loaded], Served]


def maker(
    batching: Batching,
    *,
    cache_dir: Path,
    on_batch: Callable[[int, float], None],
    process_bytes: Callable[[], int],
    now: Callable[[], float],
) -> Make:
    """See `ModelPool` for the arguments."""

    def estimate(source: Source) -> int:
        remote = source.settings.triton is not None
        return estimate_bytes(source.manifest, size_max=batching.size_max, remote=remote)

    def from_disk(source: Source, backbone: Manifest | None) -> Loaded:
        return load(
            source,
            backbone=backbone,
            size_max=batching.size_max,
            cache_dir=cache_dir,
            process_bytes=process_bytes,
        )

    def serve(source: Source, loaded: Loaded) -> Served:
        model = loaded.model
        batcher = Batcher(
            model.predict,
            model.curve,
            rules=batching.rules(model.size_max),
            on_batch=on_batch,
            lanes=model.lanes,
            inline_s_max=-1.0
            if model.remote
            else INLINE_S_MAX,  # the loop never waits for a socket
            now=now,
        )
        served = Served(
            model, batcher, memory_bytes=loaded.memory_bytes, pinned=source.settings.pinned
        )
        served.used_at = now()
        return served

    return Make(estimate, from_disk, serve)
