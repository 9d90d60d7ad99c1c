"""Answer rows with the model that serves online, after everybody who waits for an answer.

Being put off is no error here: a full queue, a model that is being swapped, a breaker that is open
all mean to ask again later, until the window ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cloud.batch.answer_lines import Answered
from cloud.batch.reading import Pixels
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served
from shared.errors import Malformed, Unavailable

_AGAIN_S = (0.05, 2.0)  # between two tries: from, doubling, to
_ANSWER_S = 30.0  # for one batch; behind a busy tier it may wait for long
_IDLE_UNKNOWN = 0.5  # before the first window


class Find(Protocol):
    """`ModelPool.find`."""

    def __call__(self, name: str, version: str | None = None) -> Served: ...


class Ask(Protocol):
    """`Inference.answer`."""

    def __call__(
        self, served: Served, rows: Rows, deadline: float, priority: Priority
    ) -> Coroutine[Any, Any, Answer]: ...


@dataclass(frozen=True, slots=True)
class Face:
    """What a window must know of the model. It stays through a window, whatever version serves."""

    shape: tuple[int, ...]
    labels: tuple[str, ...]
    cost_s: Callable[[int], float]
    idle_share: float  # of the time since the last window ended


class OnlineModel:
    """`begin` a window, `answer` its batches, `end` it."""

    def __init__(
        self,
        find: Find,
        ask: Ask,
        name: str,
        version: str | None,
        *,
        stop: asyncio.Event,
        now: Callable[[], float],
        on_wait: Callable[[], None],
    ) -> None:
        """`now` is the batchers' clock; `on_wait` hears of each batch that was put off."""
        self._find, self._ask, self._name, self._version = find, ask, name, version
        self._stop, self._now, self._on_wait = stop, now, on_wait
        self._until = 0.0
        self._face: Face | None = None
        self._busy: tuple[str, float, float] | None = None  # version, busy seconds, when

    async def begin(self, until: float) -> Face | None:
        """None when the model is not there before `until`. Raises `Unknown` or `Malformed`."""
        self._until = until
        served = await self._found()
        if served is None:
            return None
        inputs = served.manifest.inputs
        if len(inputs) != 1 or inputs[0].dtype != "uint8":
            raise Malformed(f"{served.name}: images are one uint8 input; it takes others")
        self._face = Face(
            inputs[0].shape, served.manifest.labels, served.model.curve.cost_s,
            self._idle_share(served),
        )  # fmt: skip
        return self._face

    async def answer(self, pixels: Pixels) -> Answered | None:
        """Of uint8 [n, *shape]; None when the window ends first. Raises `Refused`."""
        wait_s, wait_s_max = _AGAIN_S
        while (served := await self._found()) is not None:
            if not self._fits(served) or not self.has_time(len(pixels)):
                return None  # another kind of version took over, or the window is over
            try:
                deadline = min(self._now() + _ANSWER_S, self._until)
                said = await self._ask(served, pixels, deadline, Priority.NEAR_LINE)
                if said.source != "rule":  # a stand-in is not worth keeping
                    # a copy: a part of a batch keeps all of it alive
                    return Answered(np.array(said.outputs.probabilities), served.version)
                again_s = wait_s
            except Unavailable as error:
                again_s = error.retry_after_s or wait_s
            self._on_wait()
            del served  # a version that was replaced waits for whoever holds it
            if not await self._waited(again_s):
                return None
            wait_s = min(wait_s * 2, wait_s_max)
        return None

    def has_time(self, rows: int) -> bool:
        """Whether a batch of so many would end within the window."""
        if self._face is None or self._stop.is_set():
            return False
        return self._now() + self._face.cost_s(rows) < self._until

    def end(self) -> None:
        """Remember how busy the model was, so that the next window knows how idle it is."""
        try:
            served = self._find(self._name, self._version)
        except Exception:  # noqa: BLE001  whatever it is, the next window meets it and says so
            self._busy = None
        else:
            self._busy = (served.version, served.batcher.busy_s, self._now())

    async def _found(self) -> Served | None:
        while True:
            try:
                return self._find(self._name, self._version)
            except Unavailable as error:
                if not await self._waited(error.retry_after_s or _AGAIN_S[1]):
                    return None

    async def _waited(self, seconds: float) -> bool:
        """Whether there is time left after that."""
        left = self._until - self._now()
        if seconds >= left:
            return False
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._stop.wait()
        except TimeoutError:
            return True
        return False

    def _fits(self, served: Served) -> bool:
        manifest, face = served.manifest, self._face
        return face is not None and (face.shape, face.labels) == (
            manifest.inputs[0].shape, manifest.labels,
        )  # fmt: skip

    def _idle_share(self, served: Served) -> float:
        if self._busy is None or self._busy[0] != served.version:
            return _IDLE_UNKNOWN
        _, busy_s, at = self._busy
        passed_s = self._now() - at
        if passed_s <= 0:
            return _IDLE_UNKNOWN
        return 1.0 - min(max((served.batcher.busy_s - busy_s) / passed_s, 0.0), 1.0)
