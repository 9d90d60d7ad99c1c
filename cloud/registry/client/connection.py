"""Calls to one of a registry's URLs: which one, for how long, and again after what failures."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from cloud.registry.client.answers import Answer, parsed, plain, refusal_of
from cloud.registry.client.retrying import Tries, after_failure
from cloud.registry.client.settings import ClientSettings
from shared.api_key import key_header
from shared.errors import Disconnected, HybridgeError, Malformed, ReadOnly, Refused, TooLarge

Body = bytes | Callable[[], AsyncIterator[bytes]]
"""Whole, or what gives it at each call: a body is sent again after a cut."""
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "PATCH"})
_AWAY_S: Final = 30.0  # a URL that failed is asked after the others for so long
_NOT_REACHED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Nothing was sent. Whoever is silent after that was reached, and may have done it."""


class Connection:
    """Of one client; used within `async with`. Redirects are not followed: the key stays here."""

    def __init__(
        self,
        urls: Sequence[str],
        key: str | None,
        settings: ClientSettings,
        rng: Random | None = None,
        tls: SSLContext | None = None,
        what: str = "registry",
    ) -> None:
        """`what`: who is asked, in the words of its errors."""
        if not urls:
            raise Malformed(f"no {what} is named; give its URL")
        self.urls: Final = tuple(checked_url(url, what) for url in urls)
        self._what: Final = what
        self.settings: Final = settings
        self._headers, self._tls = key_header(key), tls
        self.rng: Final = rng or Random()  # noqa: S311  spreads retries
        self._away_until: dict[str, float] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        settings = self.settings
        self._session = aiohttp.ClientSession(
            headers=self._headers | {"Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=settings.connect_s_max, sock_read=settings.silence_s_max
            ),
            connector=aiohttp.TCPConnector(
                limit=settings.transfers + 2, ssl=True if self._tls is None else self._tls
            ),
            auto_decompress=False,  # nothing is asked for compressed, so nothing unpacks to a bomb
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 20,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """For transfers of artifacts (`shared/fetching/`); it sends the key by itself."""
        assert self._session is not None, "used outside of `async with`"
        return self._session

    async def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | float | None] | None = None,
        document: object = None,
        revision: int | None = None,
        is_repeatable: bool | None = None,
    ) -> object:
        """Call with JSON both ways; `revision` is what was seen last, for compare-and-set."""
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        content = None if document is None else json.dumps(document).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        answer = await self.call(
            method, path, query=query, headers=headers, body=None if content is None
            else content, length=None if content is None else len(content),
            is_repeatable=is_repeatable,
        )  # fmt: skip
        return parsed(answer, f"{self.urls[0]}{path}", self._what) if answer.body else None

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | float | None] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        length: int | None = None,
        is_repeatable: bool | None = None,
    ) -> Answer:
        """Call until there is an answer of success, or no more patience.

        Raises:
            Refused: whatever class and words the registry gave it, or as `refusal_of`.
            Unavailable: it cannot be reached, or puts this off for longer than the patience.

        """
        if query and (asked := {k: v for k, v in query.items() if v is not None}):
            path = f"{path}?{urlencode(asked)}"
        sent = dict(headers or {})
        if length is not None:
            sent["Content-Length"] = str(length)
        repeatable = method in _REPEATABLE if is_repeatable is None else is_repeatable
        loop = asyncio.get_running_loop()
        tries = Tries.starting(loop.time(), self.settings)
        while True:
            found, may_have_been_done = await self._round(method, path, sent, body, repeatable)
            if isinstance(found, Answer):
                return found
            following = after_failure(
                tries, found, may_have_been_done=may_have_been_done, is_repeatable=repeatable,
                now=loop.time(), settings=self.settings, rng=self.rng,
            )  # fmt: skip
            if following is None:
                raise found
            tries, pause = following
            await asyncio.sleep(pause)

    async def _round(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Body | None,
        repeatable: bool,
    ) -> tuple[Answer | HybridgeError, bool]:
        """Each URL once, until one answers; and whether a failed call may have been done."""
        found: HybridgeError = Disconnected("")
        for url in self._order():
            try:
                answer = await self._once(method, url + path, headers, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if isinstance(error.__cause__, Refused):
                    raise error.__cause__ from error  # our own body's, which was never whole
                found = self._lost(url, error)
                if not isinstance(error, _NOT_REACHED) and not repeatable:
                    found = Disconnected(f"{found}; it may have been done before that: look first")
                    return found, True
                continue
            self._away_until.pop(url, None)
            if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                return answer, False
            found = refusal_of(answer, url + path)
            if not isinstance(found, ReadOnly):
                return found, False
        return found, False

    async def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None
    ) -> Answer:
        return await self._whole_answer(await self._request(method, url, headers, body))

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None
    ) -> aiohttp.ClientResponse:
        return await self.session.request(
            method, URL(url, encoded=True), headers=headers, allow_redirects=False,
            data=body() if callable(body) else body,
        )  # fmt: skip

    async def _whole_answer(self, response: aiohttp.ClientResponse) -> Answer:
        most = self.settings.answer_bytes_max
        content = bytearray()
        async with response, asyncio.timeout(self.settings.answer_s_max):  # else one may drip
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > most:
                    response.close()
                    raise TooLarge(f"{response.url}: its answer is over {most} bytes")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, bytes(content))

    def _order(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        return sorted(self.urls, key=lambda url: self._away_until.get(url, 0.0) > now)

    def _lost(self, url: str, error: Exception) -> Disconnected:
        self._away_until[url] = asyncio.get_running_loop().time() + _AWAY_S
        why = plain(str(error)) or type(error).__name__
        if isinstance(error, TimeoutError) and not isinstance(error, _NOT_REACHED):
            words = f"was reached and does not answer ({why})"
        else:
            words = f"cannot be reached ({why}); does it run there?"
        found = Disconnected(f"{url}: the {self._what} {words}")
        found.__cause__ = error
        return found


def checked_url(url: str, what: str = "registry") -> str:
    """Without a slash at its end. Raises `Malformed`."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Malformed(f"{what} {url[:200]!r}: {error}; write http://host:port") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Malformed(f"{what} {url[:200]!r}: write it as http://host:port or https://host")
    if parts.username is not None:
        raise Malformed(f"{what}: its URL holds a password, which others can read; give a key file")
    return url.rstrip("/")


def quoted(part: str) -> str:
    """One segment of a path, whatever it holds."""
    return quote(part, safe="")
