"""Where a broker is, as settings of both ends write it."""

from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from shared.errors import Malformed

PORTS = {"mqtt": 1883, "mqtts": 8883}


class BrokerUrl(BaseModel):
    """A broker's URL taken apart."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int
    tls: bool
    username: str | None = None
    password: SecretStr | None = None


def parse_url(url: str) -> BrokerUrl:
    """Take `mqtt://` or `mqtts://` apart. Raises `Malformed`, without repeating a password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Malformed("broker url: want mqtt://[user:password@]host[:port]") from error
    if parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.query:
        raise Malformed("broker url: want mqtt://[user:password@]host[:port], or mqtts://")
    return BrokerUrl(
        host=host,
        port=PORTS[parts.scheme] if port is None else port,
        tls=parts.scheme == "mqtts",
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else SecretStr(unquote(parts.password)),
    )
