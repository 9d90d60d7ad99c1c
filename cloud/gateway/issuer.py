"""Where a token issuer's keys come from: its URL, asked in the background, or a file."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import aiohttp

from cloud.gateway.counts import GatewayCounts
from cloud.gateway.guarded_file import read_guarded
from cloud.gateway.jwks import SET_BYTES_MAX, KeySet, parse_jwks
from cloud.gateway.refresh import Refreshing, RefreshRules
from shared.errors import Disconnected, HybridgeError, TooLarge

log = logging.getLogger(__name__)

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class Issuer(Protocol):
    """Keys that vouch for tokens."""

    def keys(self, now: float) -> KeySet | None:
        """Give the last set that is still good; None: there is none."""
        ...

    def missed(self, now: float) -> bool:
        """Tell that a token named a key that is not there; whether a newer set is on its way."""
        ...


class IssuerFile:
    """A key set in a file. Raises as `read_guarded` and `parse_jwks` do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.current = self.read()

    def read(self) -> KeySet:
        return parse_jwks(read_guarded(self._path, is_secret=False).encode(), str(self._path))

    def keys(self, now: float) -> KeySet | None:  # noqa: ARG002  a file does not age
        return self.current

    def missed(self, now: float) -> bool:  # noqa: ARG002  it is read when we are told to
        return False


class IssuerUrl:
    """A key set at a URL; `run` keeps it fresh. The last good one stays while the issuer is down.

    `clock` is that of the `now` that the others are given.
    """

    def __init__(
        self,
        url: str,
        rules: RefreshRules,
        timeout_s: float,
        counts: GatewayCounts,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._counts, self._on_change, self._clock = counts, on_change, clock
        self._state = Refreshing(rules)
        self._keys: KeySet | None = None
        self._wanted = asyncio.Event()

    def keys(self, now: float) -> KeySet | None:
        return self._keys if self._state.are_good(now) else None

    def missed(self, now: float) -> bool:
        if not self._wanted.is_set() and self._state.may_ask(now):
            self._wanted.set()
        return self._wanted.is_set()

    async def run(self) -> None:
        """Fetch for ever; cancel it to end."""
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            auto_decompress=False,  # what is not asked for cannot swell
            headers=_HEADERS,
        ) as http:
            while True:
                self._wanted.set()  # a request is on its way
                self._state = self._state.asking(self._clock())
                try:
                    await self._refresh(http)
                finally:
                    self._wanted.clear()
                # apart from each other, so that many workers do not ask at once
                pause_s = self._state.pause_s() * random.uniform(1.0, 1.1)  # noqa: S311  no secret
                try:
                    async with asyncio.timeout(pause_s):
                        await self._wanted.wait()
                except TimeoutError:
                    pass

    async def _refresh(self, http: aiohttp.ClientSession) -> None:
        try:
            body, cache_control = await self._fetch(http)
            keys = parse_jwks(body, self._url)
        except HybridgeError as error:
            self._counts.read["issuer_keys", False].inc()
            if not self._state.failures:
                log.warning("issuer_lost", extra={"why": str(error), "has_keys": bool(self._keys)})
            self._state = self._state.failed()
            return
        self._counts.read["issuer_keys", True].inc()
        if self._state.failures:
            log.info("issuer_back", extra={"url": self._url})
        self._state = self._state.fetched(self._clock(), cache_control)
        before, self._keys = self._keys, keys
        self._counts.issuer_keys.set(len(keys.raw))
        if before is not None and not keys.keeps_all_of(before):
            log.info("issuer_keys_changed", extra={"keys": len(keys.raw)})
            self._on_change()

    async def _fetch(self, http: aiohttp.ClientSession) -> tuple[bytes, str]:
        """Give the body and its Cache-Control; raises `Disconnected` or `TooLarge`."""
        found = bytearray()
        try:
            # a redirect could lead to where the configuration does not allow
            async with http.get(self._url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise Disconnected(f"{self._url}: HTTP status {answer.status}; want 200")
                async for chunk in answer.content.iter_chunked(16_384):
                    found += chunk
                    if len(found) > SET_BYTES_MAX:
                        raise TooLarge(f"{self._url}: over {SET_BYTES_MAX >> 10} KiB; no key set")
                return bytes(found), answer.headers.get("Cache-Control", "")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__
            raise Disconnected(f"{self._url}: {why}; see that the issuer can be reached") from error
