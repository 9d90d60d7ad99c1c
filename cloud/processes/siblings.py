"""The other serving processes of a port, each on a Unix socket, and how to ask them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from cloud.processes.place import Place

_ANSWER_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Said:
    """What one process answered; `status` 0: nothing, in time."""

    index: int
    status: int
    body: bytes


class Siblings:
    def __init__(self, folder: Path, place: Place) -> None:
        """`folder` holds the sockets; only this user may look into it."""
        self._folder, self._place = folder, place

    @property
    def own_index(self) -> int:
        return self._place.index

    @property
    def own_socket(self) -> Path:
        return self._socket(self._place.index)

    async def ask(self, method: str, path: str, body: bytes = b"") -> list[Said]:
        """Every process but this one, at once, in the order of their indexes."""
        others = [i for i in range(self._place.count) if i != self._place.index]
        return list(await asyncio.gather(*(self._ask(i, method, path, body) for i in others)))

    async def _ask(self, index: int, method: str, path: str, body: bytes) -> Said:
        connector = aiohttp.UnixConnector(str(self._socket(index)))
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S_MAX if method == "GET" else None)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://sibling{path}", data=body or None) as response,
            ):
                return Said(index, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return Said(
                index, 0, b""
            )  # it starts, ends, or hangs; the asker sees that it is missing

    def _socket(self, index: int) -> Path:
        return self._folder / f"{index}.sock"


def merged_metrics(texts: dict[int, bytes]) -> bytes:
    """Prometheus texts of several processes as one, told apart by the label `process`."""
    registry = CollectorRegistry()
    registry.register(_Merged(texts))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, texts: dict[int, bytes]) -> None:
        self._texts = texts

    def collect(self) -> list[Metric]:
        families: dict[str, Metric] = {}
        for index, text in self._texts.items():
            for found in text_string_to_metric_families(text.decode()):
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type)
                )
                family.samples += [
                    sample._replace(labels={**sample.labels, "process": str(index)})
                    for sample in found.samples
                ]
        return list(families.values())
