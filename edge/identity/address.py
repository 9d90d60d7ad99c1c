"""Which address a token or a request for a certificate may be sent to. Pure."""

import ipaddress
from urllib.parse import urlsplit

from shared.errors import Malformed


def check_url(url: str) -> None:
    """Raises `Malformed`: over plain HTTP whoever listens has the token, except on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise Malformed(f"url: {url[:80]!r} is no URL: {error}") from error
    if not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise Malformed(f"url: {url[:80]!r}: want https://host[:port], without user and query")
    if parts.scheme == "https" or (parts.scheme == "http" and _is_here(host)):
        return
    raise Malformed(f"url: {url[:80]!r}: want https://, so that nobody on the way has the token")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
