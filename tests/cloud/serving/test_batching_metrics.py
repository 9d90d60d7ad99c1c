"""What batchers count, as Prometheus reads it."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from cloud.serving.awaited import Awaited
from cloud.serving.batching_metrics import BatchingMetrics
from cloud.serving.job import Priority, Ran
from tests.cloud.serving.pools import play, running, tiny
from tests.tiny_bundle import sure_image


class Rude(Awaited):
    """Raises when it is answered, as a closed transport does."""

    def answered(self, ran: Ran) -> None:
        super().answered(ran)
        raise ConnectionError("closed")


def test_every_figure_moves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tiny(tmp_path)) as pool:
            registry = CollectorRegistry()
            BatchingMetrics(pool, registry)
            of = {"model": "tiny", "version": "1.0.0"}

            def figure(name: str, **more: str) -> float | None:
                return registry.get_sample_value(f"hybridge_{name}", {**of, **more})

            (served,) = pool.served
            jobs = [Rude(sure_image(0)[None], 1e12, Priority.INTERACTIVE) for _ in range(2)]
            for job in jobs:
                served.batcher.submit(job)
            assert figure("queue_depth") == 2
            for job in jobs:
                await job.done
            assert figure("queue_depth") == 0
            assert figure("batches_left_total", why="idle") == 1
            assert figure("batches_left_total", why="full") == 0
            assert figure("batches_by_priority_total", priority="interactive") == 1
            assert figure("batches_by_priority_total", priority="bulk") == 0
            assert figure("batch_callbacks_raised_total") == 2
            assert figure("accepted_late_total") == 0
            assert (figure("model_busy_seconds_total") or 0) > 0
            assert (figure("model_bytes") or 0) > 0

    play(scenario)
