"""Routes: the page and what it is made of. It holds no secret: what it shows it asks for with the key
that its user types.
"""

from collections.abc import Iterator
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from aiohttp import web

from cloud.api.routes import Route

_OK: Final = HTTPStatus.OK
_FILES: Final = {
    "/": ("page.html", "text/html", "The page for people"),
    "/web/page.js": ("page.js", "text/javascript", "What the page does"),
    "/web/page.css": ("page.css", "text/css", "How the page looks"),
}
_HEADERS: Final = {
    # images come with the key, as blobs; nothing is loaded from elsewhere, or framed there
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class PageRoutes:
    """For whoever comes."""

    def __init__(self) -> None:
        folder = files("cloud.learning.web")
        self._content = {path: folder.joinpath(one[0]).read_bytes() for path, one in _FILES.items()}

    def routes(self) -> Iterator[Route]:
        for path, (_, media_type, summary) in _FILES.items():
            yield Route("GET", path, self._give, summary, None, {_OK: media_type})

    async def _give(self, request: web.Request) -> web.Response:
        _, media_type, _ = _FILES[request.path]
        return web.Response(
            body=self._content[request.path], content_type=media_type, charset="utf-8",
            headers=_HEADERS,
        )  # fmt: skip
