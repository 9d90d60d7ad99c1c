"""Ask the online tier for its load, over HTTP, within a second and 64 KiB."""

from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
from pydantic import ValidationError

from cloud.batch.online_load import OnlineLoad
from shared.errors import Malformed, Refused

_TIMEOUT = aiohttp.ClientTimeout(total=1.0)
_BYTES_MAX = 64 * 1024


class LoadReader:
    """Each report comes over a connection of its own: behind one port there may be many workers."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        """`url` is the online tier's, `http://host:port`; raises `Malformed`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Malformed(f"online {url[:200]!r}: write it as http://host:port")
        self._url = f"{url.rstrip('/')}/v1/status"
        self._headers = {} if api_key is None else {"X-API-Key": api_key}
        self.why_not = ""  # there was no report, when there was none

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True), timeout=_TIMEOUT,
            headers=self._headers, auto_decompress=False,
        )  # fmt: skip
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        await self._session.close()

    async def read(self) -> OnlineLoad | None:
        """None when no report can be had. Raises `Refused` where a key is wanted."""
        try:
            async with self._session.get(self._url, allow_redirects=False) as answer:
                body = await answer.content.read(_BYTES_MAX)
                while chunk := await answer.content.read(_BYTES_MAX):
                    body += chunk
                    if len(body) > _BYTES_MAX:
                        self.why_not = f"its report is over {_BYTES_MAX} bytes"
                        return None
                if answer.status in (401, 403):
                    raise Refused(
                        f"{self._url}: HTTP status {answer.status}; give --key-file or "
                        "HYBRIDGE_API_KEY with a key whose role is observe"
                    )
                if answer.status != 200:
                    self.why_not = f"HTTP status {answer.status}"
                    return None
            return OnlineLoad.model_validate_json(body)
        except ValidationError as error:
            members = sorted({str(found["loc"][0]) for found in error.errors() if found["loc"]})
            self.why_not = f"its report lacks or garbles {', '.join(members) or 'everything'}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.why_not = str(error)[:200] or type(error).__name__
        return None
