"""What a device asks of a registry: metadata, deltas, artifacts; and what it reports."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated
from urllib.parse import quote

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge.updates.plan import DeltaOffer
from shared.bundle.manifest import Sha256
from shared.errors import HybridgeError, Malformed, Unavailable
from shared.fetching.answer import refusal
from shared.fetching.session import credentials, reaching
from shared.fetching.settings import Server
from shared.fetching.transfer import fetch_bytes

log = logging.getLogger(__name__)

_DELTAS_BYTES_MAX = 64 * 1024
_REPORT_S_MAX = 20.0


class _Offer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    from_sha256: Sha256
    to_sha256: Sha256
    sha256: Sha256
    bytes: Annotated[int, Field(gt=0, le=2**32)]


class _Offers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    deltas: Annotated[tuple[_Offer, ...], Field(max_length=200)] = ()


class RegistryClient:
    def __init__(self, server: Server) -> None:
        """Set `session` before anything is asked."""
        self._server = server
        self.session: aiohttp.ClientSession

    @property
    def urls(self) -> Sequence[str]:
        return tuple(url.rstrip("/") for url in self._server.urls)

    @property
    def stall_s(self) -> float:
        return self._server.stall_s_max

    def headers(self) -> dict[str, str]:
        """Raises `Unavailable` when the key's file cannot be read: it may come back."""
        try:
            return credentials(self._server)
        except Malformed as error:
            raise Unavailable(str(error)) from error

    def artifact_urls(self, sha256: str) -> list[str]:
        return [f"{url}/v1/artifacts/{sha256}" for url in self.urls]

    def metadata_from(self, url: str) -> Callable[[str, int], Awaitable[bytes | None]]:
        """What `TrustStore.refresh` fetches with, from one registry."""

        async def fetch(name: str, bytes_max: int) -> bytes | None:
            return await fetch_bytes(
                self.session, f"{url}/tuf/{quote(name)}", bytes_max=bytes_max,
                headers=self.headers(), stall_s=self.stall_s,
            )  # fmt: skip

        return fetch

    async def deltas_to(self, sha256: str) -> tuple[DeltaOffer, ...]:
        """From the first registry that answers; none when no one does: the full file comes then."""
        for url in self.artifact_urls(sha256):
            try:
                content = await fetch_bytes(
                    self.session, f"{url}/deltas", bytes_max=_DELTAS_BYTES_MAX,
                    headers=self.headers(), stall_s=self.stall_s,
                )  # fmt: skip
                offers = _Offers() if content is None else _Offers.model_validate_json(content)
            except (HybridgeError, ValidationError) as error:
                log.info("deltas_unknown", extra={"url": url, "why": str(error)[:200]})
            else:
                return tuple(
                    DeltaOffer(o.from_sha256, o.to_sha256, o.sha256, o.bytes) for o in offers.deltas
                )
        return ()

    async def report(self, device: str, document: dict[str, str]) -> None:
        """Say what runs here, to the first registry that takes it.

        Raises what the last one said: a replica that is read-only takes reports all the same.
        """
        last: HybridgeError = Malformed("no registry to report to")
        for url in self.urls:
            where = f"{url}/v1/runners/{quote(device)}"
            try:
                with reaching(where):
                    async with asyncio.timeout(_REPORT_S_MAX), self.session.put(
                        where, data=json.dumps(document), allow_redirects=False,
                        headers=self.headers() | {"Content-Type": "application/json"},
                    ) as response:  # fmt: skip
                        if response.status < 300:
                            return
                        last = refusal(response.status, response.headers, where)
            except HybridgeError as error:
                last = error
        raise last
