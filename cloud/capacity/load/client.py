"""One connection of the load: a request at a time, and only its answer's status is looked at."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

_LENGTH: Final = b"\r\ncontent-length:"
_ANSWER_BYTES_MAX: Final = 64 * 2**20


class Connection(asyncio.Protocol):
    """`answered` hears of a request's status, 0 when its connection broke."""

    def __init__(
        self,
        answered: Callable[["Connection", int, int], None],
        lost: Callable[["Connection"], None],
    ) -> None:
        self._answered, self._lost = answered, lost
        self._request = -1
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        request, self._request = self._request, -1
        self._lost(self)
        if request >= 0:
            self._answered(self, request, 0)

    def send(self, request: int, message: bytes) -> None:
        self._request = request
        self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            head = data[:end].lower()
            at = head.find(_LENGTH)
            stop = head.find(b"\r", at + 2)
            length = head[at + len(_LENGTH) : stop if stop > 0 else end].strip()
            if at < 0 or not length.isdigit() or not head[9:12].isdigit():
                self.transport.abort()  # not our server's way to answer; counts as failed
                return
            if len(data) >= end + 4 + int(length):
                request, self._request, self._held = self._request, -1, b""
                if request >= 0:
                    self._answered(self, request, int(head[9:12]))
                return
        if len(data) > _ANSWER_BYTES_MAX:
            self.transport.abort()
            return
        self._held = data
