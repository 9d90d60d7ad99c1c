"""The store of artifacts that the process `learning` and its workers share."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from cloud.registry.artifacts.blobs import Blobs
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.registry.artifacts.object_blobs import object_blobs
from cloud.registry.artifacts.settings import ArtifactSettings


def open_blobs(settings: ArtifactSettings, state_dir: Path) -> Blobs:
    """Where `settings.url` says; None: the folder `artifacts` in `state_dir`. Raises `Malformed` for
    a URL that names no store.
    """
    if settings.url is None:
        return FolderBlobs(state_dir / "artifacts")
    if settings.url.startswith("file:"):
        return FolderBlobs(Path(unquote(urlsplit(settings.url).path)))
    return object_blobs(settings.url)
