"""Where artifacts lie, and the bounds of the store."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from shared.config import Count, Positive, Section

SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")


class ArtifactSettings(Section):
    url: Annotated[str, Field(max_length=500)] | None = None
    """None: the directory `artifacts` in the state directory. `file:///srv/artifacts`, or
    `s3://bucket/prefix`, whose credentials come from the environment. One registry per place: each
    one's garbage collection knows only its own catalog."""
    bytes_max: Count = 2 * 1024**3
    """Of one artifact. Four times the largest bundle."""
    uploads_max: Count = 64
    """Unfinished uploads at once: a push of one bundle has one for each file that it sends."""
    uploads_bytes_max: Count = 8 * 1024**3
    """Of all unfinished uploads together, by the size that they said they would have."""
    upload_hours: Positive = 24.0
    """An upload that nobody has continued for so long is dropped: the next day may resume it."""
    grace_hours: Annotated[float, Field(ge=1)] = 24.0
    """What nothing needs is kept for so long after it was stored, or asked about: whoever pushes
    has that time between the first file and the registration. Below an hour a slow upload, or one
    stall of the database, would lose what was about to be needed."""
    free_bytes_min: Annotated[int, Field(ge=0)] = 256 * 1024**2
    """An upload that would leave less than this on its disk is refused: the catalog may be on it."""
    corrupt_max: Count = 16
    """Artifacts with flipped bits that are kept, set aside, for whoever looks into it."""

    @field_validator("url")
    @classmethod
    def _is_a_store(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"artifacts live at file:///..., or {SCHEMES[1]}://bucket/prefix")
        if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
            raise ValueError("a directory is file:///absolute/path")
        return url

    @property
    def grace_s(self) -> float:
        return self.grace_hours * 3600

    @property
    def upload_s(self) -> float:
        return self.upload_hours * 3600
