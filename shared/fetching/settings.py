"""Where a server is, and how it and this end know each other."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from shared.config import Positive, Section

Url = Annotated[str, StringConstraints(max_length=300)]


class Server(Section):
    """An HTTP API at one or several URLs that serve the same."""

    urls: Annotated[tuple[Url, ...], Field(min_length=1, max_length=8)]
    """http:// or https://, tried in order: the region's replica first, then home."""

    api_key_file: Path | None = None
    """Holds the API key in its first line; read again for every connection, so that a key can be
    changed while this runs. None: the server asks for none."""

    ca: Path | None = None
    """PEM file of the server's authority; the system's store when absent."""

    certificate: Path | None = None
    """PEM file of this end's certificate, where the server asks for one."""

    key: Path | None = None
    """PEM file of its private key."""

    connect_s_max: Positive = 10.0
    """Seconds until a connection stands; a tethered phone needs two."""

    stall_s_max: Positive = 30.0
    """Seconds in which at least one KiB must come; less counts as cut off."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for url in self.urls:
            _check_url(url)
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key come together")
        return self

    def rooted(self, root: Path) -> Self:
        """With relative paths made relative to `root`."""
        files = {
            "api_key_file": self.api_key_file,
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
        }
        return self.model_copy(update={n: root / f for n, f in files.items() if f is not None})


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"urls: {url[:80]!r} is no http:// or https:// URL")
    if "@" in parts.netloc:
        raise ValueError("urls: put the key into a file and name it in api_key_file")
    if parts.query or parts.fragment:
        raise ValueError(f"urls: {url[:80]!r} has a query or a fragment; name the API's root")
