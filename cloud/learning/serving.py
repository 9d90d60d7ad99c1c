"""A serving worker's answers over HTTP, by the Open Inference Protocol v2."""

import json
from typing import Final

import aiohttp
import numpy as np
from numpy.typing import NDArray

from cloud.learning.settings import Serving
from shared.errors import Disconnected, Malformed, Unknown
from shared.fetching.session import credentials, open_session
from shared.fetching.settings import Server

_ANSWER_BYTES_MAX: Final = 8 * 1024**2
_NAMES: Final = {"uint8": "UINT8", "float32": "FP32"}
_MISSING: Final = 404


class Served:
    def __init__(self, settings: Serving) -> None:
        self._settings = settings

    async def probabilities(
        self, model: str, version: str, batch: NDArray[np.generic]
    ) -> NDArray[np.float32]:
        """[N, classes] of inputs [N, ...], as the worker gives them now.

        The first URL that answers is asked. Raises `Unknown` where it does not serve that version,
        `Disconnected` where none answers, `Malformed`.
        """
        lost: list[str] = []
        for url in self._settings.urls:
            try:
                return await self._of(url, model, version, batch)
            except Disconnected as error:
                lost.append(str(error))
        raise Disconnected("; ".join(lost))

    async def _of(
        self, url: str, model: str, version: str, batch: NDArray[np.generic]
    ) -> NDArray[np.float32]:
        settings = self._settings
        where = f"{url.rstrip('/')}/v2/models/{model}/versions/{version}"
        async with open_session(_plain(settings)) as session:
            try:
                async with (
                    session.get(where, headers=credentials(settings)) as answer,
                ):
                    described = await _read(answer, where)
                asked = _request(described, batch, where)
                timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
                async with session.post(
                    f"{where}/infer", json=asked, headers=credentials(settings), timeout=timeout
                ) as answer:
                    return _probabilities(await _read(answer, where), len(batch), where)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Disconnected(f"{where}: {error or type(error).__name__}") from error


def _request(described: object, batch: NDArray[np.generic], where: str) -> dict[str, object]:
    inputs = described.get("inputs") if isinstance(described, dict) else None
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise Malformed(f"{where}: does not say its one input")
    dtype = _NAMES.get(batch.dtype.name)
    if dtype is None:
        raise Malformed(f"{where}: inputs are {batch.dtype}; the check reads {', '.join(_NAMES)}")
    tensor = {
        "name": inputs[0].get("name"), "shape": list(batch.shape), "datatype": dtype,
        "data": batch.reshape(-1).tolist(),
    }  # fmt: skip
    return {"inputs": [tensor], "outputs": [{"name": "probabilities"}]}


async def _read(answer: aiohttp.ClientResponse, where: str) -> object:
    content = await answer.content.read(_ANSWER_BYTES_MAX)
    while not answer.content.at_eof() and len(content) < _ANSWER_BYTES_MAX:
        content += await answer.content.read(_ANSWER_BYTES_MAX - len(content))
    if answer.status == _MISSING:
        raise Unknown(f"{where}: the worker does not serve it")
    if answer.status >= 300:
        raise Disconnected(
            f"{where}: answers {answer.status}: {content[:200].decode('utf-8', 'replace')}"
        )
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{where}: answers no JSON") from error
    return found


def _probabilities(found: object, count: int, where: str) -> NDArray[np.float32]:
    outputs = found.get("outputs") if isinstance(found, dict) else None
    for one in outputs if isinstance(outputs, list) else ():
        if isinstance(one, dict) and one.get("name") == "probabilities":
            try:
                rows = np.array(one.get("data"), np.float32).reshape(count, -1)
            except (TypeError, ValueError, OverflowError) as error:
                raise Malformed(f"{where}: probabilities are no {count} rows of numbers") from error
            return rows
    raise Malformed(f"{where}: answers no probabilities")


def _plain(settings: Serving) -> Server:
    """What a session reads of it."""
    return Server.model_validate({name: getattr(settings, name) for name in Server.model_fields})
