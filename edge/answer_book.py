"""The newest answers in memory, who waits for one, and who follows them all."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from edge.answers import Answer
from shared.errors import DeadlineMissed, Overloaded, Unavailable
from shared.ids import SampleId


class AnswerBook:
    """Bounded by count: the oldest answer is forgotten first (the journal still has it)."""

    def __init__(self, answers_max: int, stream_max: int) -> None:
        self._answers_max, self._stream_max = answers_max, stream_max
        # A plain dict takes ever longer to find its first key as those before it go.
        self._answers = OrderedDict[SampleId, Answer]()
        self._waiting: dict[SampleId, set[asyncio.Future[Answer]]] = {}
        self._streams: set[Stream] = set()

    def note(self, answer: Answer) -> None:
        """Remember an answer in place of an earlier one, and tell whoever should know."""
        self._answers[answer.id] = answer
        if len(self._answers) > self._answers_max:
            self._answers.popitem(last=False)
        if not answer.final:
            return
        for waiter in self._waiting.pop(answer.id, ()):
            if not waiter.done():
                waiter.set_result(answer)
        for stream in self._streams:
            stream.put(answer)

    def find(self, sample: SampleId) -> Answer | None:
        return self._answers.get(sample)

    async def final(self, sample: SampleId, within_s: float) -> Answer:
        """Wait for the next final answer to a sample. Raises `DeadlineMissed`."""
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sample, set()).add(waiter)
        try:
            async with asyncio.timeout(within_s):
                return await waiter
        except TimeoutError as error:
            raise DeadlineMissed(
                f"no final answer to {sample} within {within_s} s; it follows as a correction"
            ) from error
        finally:
            if waiters := self._waiting.get(sample):
                waiters.discard(waiter)
                if not waiters:
                    del self._waiting[sample]

    def follow(self) -> "Stream":
        """Every final answer from now on, until it is closed."""
        stream = Stream(self._stream_max, self._streams.discard)
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """End every stream once it has been read to its end."""
        for stream in self._streams:
            stream.end(Unavailable("the agent is shutting down"))


class Stream:
    """One subscriber's queue of final answers (`edge.answers.Corrections`)."""

    def __init__(self, bound: int, leave: Callable[["Stream"], None]) -> None:
        self._bound, self._leave = bound, leave
        self._queue: deque[Answer] = deque()
        self._changed = asyncio.Event()
        self._ended: Unavailable | None = None

    def put(self, answer: Answer) -> None:
        if self._ended is None and len(self._queue) >= self._bound:
            self.end(Overloaded(f"{self._bound} answers were not read in time; the rest is lost"))
        if self._ended is None:
            self._queue.append(answer)
            self._changed.set()

    def end(self, why: Unavailable) -> None:
        self._ended = self._ended or why
        self._changed.set()

    async def next(self) -> Answer:
        """The next one. Raises `Overloaded` when the reader was too slow, `Unavailable` at the
        end.
        """
        while not self._queue:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        return self._queue.popleft()

    def close(self) -> None:
        self._leave(self)
