"""From what people write (a path, `file://`, `s3://bucket/prefix`) to a source."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from cloud.batch.folder_source import FolderSource
from cloud.batch.object_source import SCHEMES, object_source
from cloud.batch.source import Source
from shared.errors import Malformed


def locate(text: str) -> Source:
    """Raises `Unknown` or `Malformed`."""
    if "://" not in text:
        return FolderSource(Path(text))
    parts = urlsplit(text)
    if parts.scheme == "file" and not parts.netloc:
        return FolderSource(Path(unquote(parts.path)))
    if parts.scheme in SCHEMES:
        return object_source(text)
    raise Malformed(f"{text[:200]}: inputs come from a path, file:///..., or {SCHEMES[0]}://...")
