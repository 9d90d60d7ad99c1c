"""From rows to an answer, whatever the transport: cache, breaker, batcher, fallback.

`Ask` is a job that knows its model; both lanes of the HTTP API, the MQTT path and the slower tiers
come through here.
"""

import asyncio
from typing import Literal, NamedTuple

from cloud.serving.job import Job, Outputs, Priority, Ran, Rows
from cloud.serving.served import Served

Source = Literal["cloud", "cache", "rule"]


class Answer(NamedTuple):
    outputs: Outputs
    source: Source
    queue_s: float
    run_s: float


class Ask(Job):
    """Rows for one model. Whoever asks says in `reply` and `refuse` what becomes of the answer."""

    __slots__ = ("served",)

    def __init__(
        self,
        served: Served,
        rows: Rows,
        deadline: float,
        priority: Priority = Priority.INTERACTIVE,
    ) -> None:
        super().__init__(rows, deadline, priority)
        self.served = served

    def reply(self, answer: Answer) -> None:
        """Called once, on the event loop, unless `refuse` is."""
        raise NotImplementedError

    def refuse(self, error: Exception) -> None:
        """Called once, on the event loop, unless `reply` is."""
        raise NotImplementedError

    def answered(self, ran: Ran) -> None:
        self.reply(Answer(ran.outputs, "cloud", ran.queue_s, ran.run_s))

    def failed(self, error: Exception) -> None:
        self.refuse(error)


class Inference:
    def submit(self, ask: Ask) -> None:
        """Raises `DeadlineMissed`, `QueueFull`, `Draining` at once, or calls `ask` back later."""
        ask.served.batcher.submit(ask)

    async def answer(
        self,
        served: Served,
        rows: Rows,
        deadline: float,
        priority: Priority = Priority.INTERACTIVE,
    ) -> Answer:
        """By `deadline` (`time.monotonic`). Raises `Unavailable` or `Refused`."""
        ask = _Awaited(served, rows, deadline, priority)
        self.submit(ask)
        return await ask.done


class _Awaited(Ask):
    __slots__ = ("done",)

    def __init__(self, served: Served, rows: Rows, deadline: float, priority: Priority) -> None:
        super().__init__(served, rows, deadline, priority)
        self.done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        return self.done.done()

    def reply(self, answer: Answer) -> None:
        if not self.done.done():
            self.done.set_result(answer)

    def refuse(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
