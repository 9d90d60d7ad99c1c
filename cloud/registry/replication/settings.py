"""The `home` and `peers` parts of a registry's configuration."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from shared.config import Count, Positive, Section


def _is_base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("want http://HOST:PORT or https://HOST")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("no user, password, query or fragment; the key goes into key_file")
    return url.rstrip("/")


BaseUrl = Annotated[str, StringConstraints(max_length=300), AfterValidator(_is_base)]


class HomeSettings(Section):
    """Whom this registry follows; without this section it is home itself."""

    urls: Annotated[tuple[BaseUrl, ...], Field(min_length=1, max_length=16)]
    """The home's, and those of registries that may become home, in the order in which they are
    asked. The highest epoch that a verified root names wins, wherever it stands."""
    url: BaseUrl | None = None
    """How devices of this region reach this replica; the home shows it. None: not told."""
    root: Path
    """The TUF root that this replica trusts first (`1.root.json`, from the key ceremony); later
    roots are taken only when they are signed as TUF asks (specification, 5.3)."""
    key_file: Path | None = None
    """A file with the API key for the home: role viewer. None: the home lets anybody read."""
    wait_s: Annotated[float, Field(gt=0, le=60)] = 20.0
    """How long the home may hold a question for the log's next entry. Under the minute after which
    proxies close silent connections."""
    entries_max: Annotated[int, Field(gt=0, le=1000)] = 500
    """Entries of one answer; each has 0.3 to 3 KB."""
    answer_bytes_max: Count = 32 * 1024**2
    """Of one answer of the log; a larger one is refused unread, and fewer entries are asked for. One
    entry may have 256 KiB."""
    copies_max: Annotated[int, Field(gt=0, le=64)] = 4
    """Artifacts copied at once: fills a line over an ocean, and leaves a home's disk to others."""
    artifact_bytes_max: Count = 8 * 1024**3
    """Of one artifact; what is larger is refused before its first byte is kept."""
    pause_s_min: Positive = 0.5
    """First pause after a failure; doubles, with full jitter."""
    pause_s_max: Positive = 30.0
    """Longest pause; also about how long a home that is back waits to be followed again."""
    report_s: Positive = 30.0
    """How often the home is told what this replica has, and what its devices run."""
    mend_s: Positive = 600.0
    """How often is looked whether artifacts are missing here, as after a disk lost some. A look
    lists all artifacts once."""


class PeerSettings(Section):
    """Other registries that may know of a higher epoch than this one."""

    urls: Annotated[tuple[BaseUrl, ...], Field(max_length=16)] = ()
    """A home's replicas. A home that has some, and reaches none at its start, takes no writes until
    it does, or until it is started with `--alone`: it cannot know that it is still the home."""
    key_file: Path | None = None
    """A file with the API key for them: role viewer. None: they let anybody read."""
    look_s: Positive = 10.0
    """How often each is asked; how long two homes can be at once after a cut heals."""
    timeout_s: Positive = 5.0
    """Of one question to one of them."""
