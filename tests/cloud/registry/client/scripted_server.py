"""A server that answers with prepared bytes, good or bad, and keeps what it was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from cloud.api.problems import problem_of
from shared.errors import HybridgeError

CUT = None
"""Instead of an answer: the connection is closed once the request is there."""
SILENT = b""
"""Instead of an answer: nothing comes, and the connection stays open."""


class ScriptedServer:
    """Gives its answers in turn, the last one again and again. `asked`: method, path and headers."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.url = ""
        self.is_done = asyncio.Event()
        self.serving: set[asyncio.Task[object]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode().strip().split("\r\n")
                method, path, _ = line.split(" ")
                headers = {
                    name.lower(): value for name, _, value in (f.partition(": ") for f in fields)
                }
                await reader.readexactly(int(headers.get("content-length", "0")))
                self.asked.append((method, path, headers))
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if answer == SILENT:
                    await self.is_done.wait()
                if not answer:
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def scripted(*answers: bytes | None) -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer(answers)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        made.is_done.set()
        server.close()
        for task in made.serving:
            task.cancel()
        await asyncio.gather(*made.serving, return_exceptions=True)


def ok(document: object) -> bytes:
    return response(HTTPStatus.OK, json.dumps(document).encode())


def problem(error: HybridgeError) -> bytes:
    found = problem_of(error)
    extra = "".join(f"{name}: {value}\r\n" for name, value in found.headers.items())
    return response(found.status, found.body("1"), extra)


def response(status: int, body: bytes, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body
