"""A job with a future, for those who are not in a hurry."""

import asyncio

from cloud.serving.job import Job, Priority, Ran, Rows


class Awaited(Job):
    """A job with a future."""

    __slots__ = ("done",)

    def __init__(
        self, rows: Rows, deadline: float, priority: Priority = Priority.INTERACTIVE
    ) -> None:
        super().__init__(rows, deadline, priority)
        self.done: asyncio.Future[Ran] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        return self.done.done()

    def answered(self, ran: Ran) -> None:
        if not self.done.done():
            self.done.set_result(ran)

    def failed(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
