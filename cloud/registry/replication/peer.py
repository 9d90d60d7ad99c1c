"""Another registry, as this one asks it: roots, the log, artifacts. One try each; who asks retries."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import aiohttp
from pydantic import ValidationError

from cloud.registry.client.answers import Answer, error_of, plain
from cloud.registry.client.connection import Connection
from cloud.registry.client.settings import ClientSettings
from cloud.registry.documents import ReplicaState
from cloud.registry.replication.log_answer import LogAnswer
from shared.config import in_words
from shared.errors import Disconnected, Malformed, TooLarge, Unknown
from shared.trust.names import ROOT_BYTES_MAX

_ANSWER_BYTES_MAX: Final = 256 * 1024
_REFUSAL_BYTES_MAX: Final = 8 * 1024
_RANGE: Final = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19})")
_UNSATISFIED: Final = re.compile(r"bytes \*/(\d{1,19})")
_NO_PATIENCE_S: Final = 1e-6
_GRACE_S: Final = 5.0  # beyond what the other end was asked to wait


@dataclass(frozen=True, slots=True)
class Part:
    """An artifact's bytes from `offset` on; `total_bytes` of the whole."""

    offset: int
    total_bytes: int
    chunks: AsyncIterator[bytes]


class Peer:
    """One registry's URL; used within `async with`. Raises what it refuses with, `Unavailable` when
    it cannot be reached, `Malformed` or `TooLarge` for an answer that is none.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        wait_s_max: float,
        connect_s_max: float = 5.0,
        answer_bytes_max: int = _ANSWER_BYTES_MAX,
        transfers: int = 1,
    ) -> None:
        self.url: Final = url
        self._connection = Connection(
            (url,), key, ClientSettings(
                patience_s=_NO_PATIENCE_S, connect_s_max=connect_s_max,
                silence_s_max=wait_s_max + _GRACE_S, answer_bytes_max=answer_bytes_max,
                transfers=transfers,
            ),
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

    async def root(self, version: int) -> bytes | None:
        """None: there is no such root there."""
        try:
            answer = await self._connection.call("GET", f"/tuf/{version}.root.json")
        except Unknown:
            return None
        if len(answer.body) > ROOT_BYTES_MAX:
            raise TooLarge(f"{self.url}: {version}.root.json is over {ROOT_BYTES_MAX} bytes")
        return answer.body

    async def log(self, after: int, limit: int, wait_s: float) -> LogAnswer:
        """Entries after that one; it may wait `wait_s` seconds for the first."""
        query = {"after": after, "limit": limit, "wait_s": wait_s}
        answer = await self._connection.call("GET", "/v1/log", query=query)
        try:
            return LogAnswer.model_validate_json(answer.body)
        except ValidationError as error:
            words = in_words(error)[:500]
            raise Malformed(f"{self.url}/v1/log: {words}; is a registry there?") from error

    @asynccontextmanager
    async def artifact(self, sha256: str, offset: int) -> AsyncIterator[Part]:
        """Raises `Unknown` where it is not there."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        path = f"/v1/artifacts/{quote(sha256, safe='')}"
        try:
            async with self._connection.session.get(
                self.url + path, headers=headers, allow_redirects=False
            ) as response:
                if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
                    yield Part(offset, _whole(response, offset), _nothing())
                    return
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise error_of(await _refusal(response), self.url + path)
                start, total = _place(response, offset)
                yield Part(start, total, response.content.iter_any())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = plain(str(error)) or type(error).__name__
            raise Disconnected(f"{self.url}: lost while copying {sha256[:12]} ({why})") from error

    async def is_home(self) -> bool:
        """Whether it takes writes itself. Raises as the others."""
        found = await self._connection.json("GET", "/v1/registry")
        return isinstance(found, dict) and found.get("role") == "home"

    async def report(self, state: ReplicaState) -> None:
        path = f"/v1/replicas/{quote(state.name, safe='')}"
        document = state.model_dump(mode="json")
        await self._connection.json("PUT", path, document=document)


async def _refusal(response: aiohttp.ClientResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > _REFUSAL_BYTES_MAX:
            break
    return Answer(response.status, headers, bytes(content[:_REFUSAL_BYTES_MAX]))


def _whole(response: aiohttp.ClientResponse, offset: int) -> int:
    """The length of an artifact that has nothing from `offset` on: all of it is here, or too much."""
    found = _UNSATISFIED.fullmatch(response.headers.get("Content-Range", ""))
    if found is None or int(found[1]) > offset:
        raise Malformed(f"{response.url}: has no bytes from {offset} on, and does not say how many")
    return int(found[1])


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""  # what makes it an iterator


def _place(response: aiohttp.ClientResponse, offset: int) -> tuple[int, int]:
    """Where the bytes start, and of how many; a server may answer a range with the whole."""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != offset:
            raise Malformed(f"{response.url}: asked for bytes from {offset} on, got others")
        return offset, int(found[2])
    if response.content_length is None:
        raise Disconnected(f"{response.url}: does not say how long it is")
    return 0, response.content_length
