"""A client session for one server: TLS, the API key, bounds."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from shared.api_key import key_header, key_in
from shared.errors import Disconnected, Malformed, NotTrusted
from shared.fetching.settings import Server

_HEADER_BYTES_MAX = 16 * 1024


def open_session(server: Server) -> aiohttp.ClientSession:
    """Call it on the event loop; whoever does closes the session. Raises `Malformed` for files that
    cannot be read.
    """
    tls = tls_context(server)
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=server.connect_s_max, sock_read=server.stall_s_max
    )
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=True if tls is None else tls, limit=8),
        timeout=timeout,
        auto_decompress=False,  # nothing is asked for compressed, so nothing can unpack to a bomb
        headers={"Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=_HEADER_BYTES_MAX,
        max_field_size=_HEADER_BYTES_MAX,
    )


def credentials(server: Server) -> dict[str, str]:
    """The headers that say who asks. Reads a small file. Raises `Malformed`; never shows the key."""
    return key_header(key_in(server.api_key_file, "api_key_file"))


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Translate what aiohttp raises: `NotTrusted` for a certificate, else `Disconnected`."""
    try:
        yield
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        raise NotTrusted(f"{url}: {error}; check `ca`, and the server's certificate") from error
    except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
        raise Disconnected(f"{url}: {said(error)}") from error


def said(error: Exception) -> str:
    return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)


def tls_context(server: Server) -> ssl.SSLContext | None:
    """None: the system's authorities. Blocking. Raises `Malformed`."""
    if server.ca is None and server.certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=server.ca)
        if server.certificate is not None:
            context.load_cert_chain(server.certificate, server.key)
    except (OSError, ssl.SSLError) as error:
        raise Malformed(
            f"TLS files ({server.ca}, {server.certificate}, {server.key}): {error}; name PEM files "
            "that belong together"
        ) from error
    return context
