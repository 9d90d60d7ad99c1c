"""A version that was replaced: it finishes what was asked of it, and only then is it closed."""

import asyncio
import contextlib
import logging
import weakref
from dataclasses import dataclass

from cloud.serving.batcher import Batcher
from cloud.serving.model import LoadedModel
from cloud.serving.served import Served

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leaving:
    memory_bytes: int
    batcher: Batcher
    let_go: asyncio.Event


class Retiring:
    """Versions on their way out.

    A request that looked a version up just before it was replaced may reach its queue later, after
    its body has come. It holds the `Served` until then, so the last reference to that is the
    sign that nobody else will come. What is held for longer than `held_s_max` is closed all the
    same.
    """

    def __init__(self, held_s_max: float) -> None:
        self._held_s_max = held_s_max
        self._leaving: dict[asyncio.Task[None], _Leaving] = {}
        self._gone_busy_s = 0.0

    @property
    def memory_bytes(self) -> int:
        return sum(leaving.memory_bytes for leaving in self._leaving.values())

    @property
    def busy_s(self) -> float:
        """Seconds in which those that leave or have left have run."""
        return self._gone_busy_s + sum(one.batcher.busy_s for one in self._leaving.values())

    def add(self, served: Served) -> None:
        """Close it once it may be; the caller lets go of it at once."""
        loop = asyncio.get_running_loop()
        let_go = asyncio.Event()

        def on_last(_reference: object) -> None:  # in whatever thread held it last
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(let_go.set)

        reference = weakref.ref(served, on_last)
        task = loop.create_task(
            self._close(served.model, served.batcher, reference, let_go),
            name=f"retire {served.name} {served.version}",
        )
        self._leaving[task] = _Leaving(served.memory_bytes, served.batcher, let_go)
        task.add_done_callback(self._gone)

    async def finish(self, *, hurry: bool = False) -> None:
        """Wait until all are closed; in a hurry, without waiting for those who hold one."""
        if hurry:
            for leaving in self._leaving.values():
                leaving.let_go.set()
        while self._leaving:
            await asyncio.wait(self._leaving)

    async def _close(
        self,
        model: LoadedModel,
        batcher: Batcher,
        reference: "weakref.ref[Served]",  # its callback lives as long as it does
        let_go: asyncio.Event,
    ) -> None:
        try:
            async with asyncio.timeout(self._held_s_max):
                await let_go.wait()
        except TimeoutError:
            held = reference() is not None
            log.warning(
                "retired_version_is_held",
                extra={"model": model.name, "version": model.version, "held": held},
            )
        await batcher.drain()
        await asyncio.to_thread(model.close)
        log.info("model_closed", extra={"model": model.name, "version": model.version})

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._gone_busy_s += self._leaving.pop(task).batcher.busy_s
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("model_not_closed", exc_info=error)
