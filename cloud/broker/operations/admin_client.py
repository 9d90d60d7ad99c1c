"""Asks a running broker over its operator's socket: what `hybridge broker` is made of."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
from pydantic import TypeAdapter

from cloud.broker.operations.admin_socket import socket_path
from cloud.broker.operations.status import SessionPage, Status
from shared.errors import Disconnected, Refused, Unavailable, Unknown

TIMEOUT_S: Final = 10.0
"""For one answer; a broker that is busy with devices answers within milliseconds."""
_STATUS: Final = TypeAdapter(Status)
_PAGE: Final = TypeAdapter(SessionPage)


class AdminClient:
    """The operator's questions; each method makes one request and waits for its answer.

    Raises:
        Disconnected: no broker answers there.
        Refused: it refuses, in its own words; `Unknown` for a client that it does not know.

    """

    def __init__(self, socket: Path) -> None:
        """Ask the broker that listens on `socket`."""
        self._socket = socket

    def status(self) -> Status:
        """Give the whole broker's state."""
        return _STATUS.validate_json(self._ask("GET", "/status"))

    def sessions(self, *, after: str = "", prefix: str = "", limit: int = 100) -> SessionPage:
        """Give a page of sessions."""
        query = {"after": after, "prefix": prefix, "limit": str(limit)}
        return _PAGE.validate_json(self._ask("GET", "/sessions", query=query))

    def kick(self, client_id: str, *, forget: bool) -> None:
        """Close a client's connection, and end its session too if `forget`."""
        self._ask("POST", "/sessions/kick", body={"client_id": client_id, "forget": forget})

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> bytes:
        try:
            status, answer = asyncio.run(self._request(method, path, query, body))
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is one
            raise Disconnected(_no_answer(self._socket, error)) from error
        if status < HTTPStatus.BAD_REQUEST:
            return answer
        if status == HTTPStatus.NOT_FOUND:
            raise Unknown(_detail(answer))
        raise (Refused if status < HTTPStatus.INTERNAL_SERVER_ERROR else Unavailable)(
            _detail(answer)
        )

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, object] | None,
    ) -> tuple[int, bytes]:
        connector = aiohttp.UnixConnector(str(self._socket))
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as http,
            http.request(method, f"http://broker{path}", params=query, json=body) as answer,
        ):
            return answer.status, await answer.read()


def find(state_dirs: Sequence[Path]) -> AdminClient:
    """Give a client of the first directory that holds a socket. Raises `Unknown` if none does."""
    for state_dir in state_dirs:
        path = socket_path(state_dir)
        if path.is_socket():
            return AdminClient(path)
    looked = " and ".join(str(one) for one in state_dirs)
    raise Unknown(
        f"no embedded broker runs with its state in {looked}: name the directory with --state-dir, "
        "or the cloud's settings with --config"
    )


def _detail(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["detail"])
    except (ValueError, KeyError, TypeError):
        return "the broker refused without saying why; is another program at its socket?"


def _no_answer(path: Path, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{path}: the broker did not answer within {TIMEOUT_S:g} s; see its log"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, PermissionError):
        return f"{path}: is the broker's user's alone; run this as that user"
    if isinstance(cause, ConnectionRefusedError):
        return f"{path}: nobody listens; the broker was killed. Start it, or remove the file"
    return f"{path}: the broker does not answer ({cause})"
