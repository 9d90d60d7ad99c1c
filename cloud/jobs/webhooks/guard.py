"""No connection but to addresses that were checked: when a job is accepted, and at each POST anew.

The client asks `CheckedResolver` for the name and connects to what it gives, and nothing else; every
socket is checked once more when it is made, as the client looks up no address that is one already.
So a name that changes its address in between (DNS rebinding) leads nowhere.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from cloud.jobs.counts import JobCounts
from cloud.jobs.settings import WebhookSettings
from cloud.jobs.webhooks.addresses import Network, parse, why_refused
from cloud.jobs.webhooks.urls import AddressRefused, Target, target
from shared.errors import Refused, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)
_LOG_PERIOD_S = 60.0


class NotAllowed(OSError):
    """An address that may not be reached, in the terms of who opens sockets."""


class LookUp(Protocol):
    """A name's addresses as text."""

    async def __call__(self, host: str, port: int, family: socket.AddressFamily) -> list[str]:
        """Raises `OSError`."""


async def system_look_up(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class CheckedResolver(AbstractResolver):
    """aiohttp's seam for names. One bad address among a name's spoils all of them."""

    def __init__(self, allowed: Sequence[Network], look_up: LookUp = system_look_up) -> None:
        self._allowed, self._look_up = allowed, look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises `NotAllowed`, and `OSError` where there is no address."""
        addresses = await self._look_up(host, port, family)
        if not addresses:
            raise OSError(f"{host} has no address")
        for text in addresses:
            check(text, self._allowed)
        return [
            ResolveResult(
                hostname=host, host=text, port=port, proto=0, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in text else socket.AF_INET,
            )
            for text in addresses
        ]  # fmt: skip

    async def close(self) -> None:
        """Nothing is held."""


def check(text: str, allowed: Sequence[Network]) -> None:
    """Raises `NotAllowed` unless this address may be reached."""
    try:
        why = why_refused(parse(text), allowed)
    except ValueError as error:
        raise NotAllowed(str(error)) from error
    if why is not None:
        raise NotAllowed(f"{text} is {why}")


def checked_session(
    rules: WebhookSettings, look_up: LookUp = system_look_up
) -> aiohttp.ClientSession:
    """A client that connects to checked addresses only, keeps nothing, and follows nothing."""

    def checked_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, sockaddr = info
        check(str(sockaddr[0]), rules.allow_private)
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=CheckedResolver(rules.allow_private, look_up), use_dns_cache=False,
        force_close=True,  # a kept connection would be one that was not checked again
        limit=rules.in_flight_max, socket_factory=checked_socket,
    )  # fmt: skip
    return aiohttp.ClientSession(
        connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False, timeout=aiohttp.ClientTimeout(total=rules.timeout_s),
    )  # fmt: skip


class WebhookGuard:
    """Says at once whether a caller may name this webhook."""

    def __init__(
        self, rules: WebhookSettings, counts: JobCounts, look_up: LookUp = system_look_up
    ) -> None:
        self._rules, self._counts = rules, counts
        self._resolver = CheckedResolver(rules.allow_private, look_up)
        self._once = OncePer(_LOG_PERIOD_S)

    async def check(self, caller: str, text: str) -> None:
        """Raises `Refused` for what may not be, `Unavailable` while a name cannot be looked up."""
        try:
            found = target(text, self._rules)
        except AddressRefused:
            self._refused("address", caller)
            raise
        except Refused:
            self._refused("url", caller)
            raise
        if not self._rules.secrets.get(caller):
            self._refused("caller", caller)
            raise Refused(
                "webhook: there is no secret to sign your messages with; have this server's "
                "operator set one in webhook.secrets, or fetch the result by its id"
            )
        if not found.is_address:
            await self._look_up(found, caller)

    async def _look_up(self, found: Target, caller: str) -> None:
        try:
            async with asyncio.timeout(self._rules.resolve_s):
                await self._resolver.resolve(found.host, found.port, socket.AF_UNSPEC)
        except TimeoutError as error:
            raise _later(found) from error
        except NotAllowed as error:
            self._refused("address", caller)
            raise _no_public_address(found) from error
        except OSError as error:
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                raise _later(found) from error
            self._refused("url", caller)
            raise _no_public_address(found) from error

    def _refused(self, why: str, caller: str) -> None:
        self._counts.guarded[why].inc()
        held_back = self._once.admits(why, asyncio.get_running_loop().time())
        if held_back is not None:
            log.warning(
                "webhook_refused",
                extra={"why": why, "caller": caller[:64], "more_since_last": held_back},
            )


def _no_public_address(found: Target) -> AddressRefused:
    """The same for a name that is none: which names there are in here is not told."""
    return AddressRefused(f"webhook: {found.host} has no public address; name a public host")


def _later(found: Target) -> Unavailable:
    return Unavailable(
        f"webhook: {found.host} cannot be looked up now; send the request again", 5.0
    )
