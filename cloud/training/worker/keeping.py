"""What a job leaves behind, in the artifact store by its hash: bundle, artifacts, checkpoints."""

import hashlib
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.child_messages import Made
from cloud.training.documents import Artifact
from shared.bundle.writer import pack
from shared.errors import Malformed, TooLarge, Unavailable

ARTIFACTS_MAX: Final = 32
FILE_BYTES_MAX: Final = 1 << 30
"""Of one file: it is read whole. No less than a checkpoint may have."""


def bundle(blobs: Blobs, folder: Path, made: Made) -> Artifact:
    """Pack `folder / "bundle"`, after it was verified, and store it. Blocking.

    Raises `Malformed` (and what `open_bundle` raises) where it is not the bundle that was said to be
    made, `Unavailable`.
    """
    archive = folder / f"{made.name}-{made.version}.hyb"
    manifest = pack(folder / "bundle", archive).manifest
    if (manifest.name, manifest.version) != (made.name, made.version):
        raise Malformed(
            f"the job says that it made {made.name} {made.version}; its bundle is {manifest.name} "
            f"{manifest.version}"
        )
    return store(blobs, archive, archive.name)


def artifacts(blobs: Blobs, folder: Path) -> list[Artifact]:
    """Plain files of `folder / "artifacts"`, by name, `ARTIFACTS_MAX` at most. Blocking."""
    place = folder / "artifacts"
    if not place.is_dir():
        return []
    kept = []
    for path in sorted(place.iterdir())[:ARTIFACTS_MAX]:
        if path.is_file() and not path.is_symlink():
            try:
                kept.append(store(blobs, path, path.name))
            except ValidationError as error:
                raise Malformed(f"artifact {path.name[:80]!r}: no name for a file") from error
    return kept


def store(blobs: Blobs, path: Path, name: str) -> Artifact:
    """The file stays. Blocking. Raises `TooLarge`, `Unavailable`."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unavailable(f"{path}: cannot read it: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise TooLarge(f"{path.name}: over {FILE_BYTES_MAX} bytes; a job may not leave such a file")
    found = Artifact(
        name=name, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)
    )  # fmt: skip
    if blobs.renew(found.sha256) is None:
        blobs.put(found.sha256, content)
    return found
