"""Under which names an API without keys answers."""

import http.client
from pathlib import Path

import pytest

from cloud.api.own_names import is_own_name
from tests.cloud.registry.servers import registry

_SETTINGS = "[gateway]\n{}\n[evaluation]\nprocesses = 0\n"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8710", "127.0.0.1", "[::1]:8710", "[::1]", "localhost:8710", "LOCALHOST.", "",
     "10.0.0.7:80", "a.localhost"],
)  # fmt: skip
def test_own(host: str) -> None:
    assert is_own_name(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example:8710", "127.0.0.1.evil.example", "localhost.evil.example", "[evil.example]",
     "1", "xn--lcalhost-pya", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_foreign(host: str) -> None:
    assert not is_own_name(host)


def _asked(url: str, host: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", "/v1/models", headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_web_page_cannot_read_a_registry_without_keys(tmp_path: Path) -> None:
    with registry(tmp_path / "bare", _SETTINGS.format("")) as bare:
        assert _asked(bare.url, "evil.example:8710") == 403
        assert _asked(bare.url, "localhost:8710") == 200
    with registry(tmp_path / "said", _SETTINGS.format("allow_anonymous = true")) as said:
        assert _asked(said.url, "registry.example") == 200  # somebody decided that
