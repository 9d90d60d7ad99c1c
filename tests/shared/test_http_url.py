from urllib.parse import urlsplit

import pytest

from shared.http_url import http_url


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "::"])
def test_what_is_written_is_read_back(host: str) -> None:
    parts = urlsplit(http_url(host, 8700))
    assert (parts.scheme, parts.hostname, parts.port) == ("http", host, 8700)
