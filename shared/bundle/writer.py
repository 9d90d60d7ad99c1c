"""Pack a bundle into one `.hyb` file, the same bytes for the same content; unpack it atomically."""

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from shared.bundle.files import MANIFEST, FolderFiles
from shared.bundle.reader import Bundle, open_bundle, verify
from shared.disk import sync_folder
from shared.errors import InUse, Malformed, Unavailable

_LEVEL = 12


def pack(folder: Path, archive: Path) -> Bundle:
    """Verify the bundle in `folder`, then write it to `archive` (replaced only when complete).

    Reproducible for one version of zstandard: sorted members, no times, no owners. Raises what
    `open_bundle` raises, and `Unavailable` when it cannot be written.
    """
    if not folder.is_dir():
        raise Malformed(f"{folder}: there is no such folder; name a bundle's folder")
    bundle = verify(FolderFiles(folder))
    try:
        pieces = list(_tar(_members(bundle)))
    except ValueError as error:  # a name that the plain tar format cannot hold
        raise Malformed(f"{folder}: {error}; use shorter file names") from error
    try:
        _write_compressed(pieces, archive.absolute())
    except OSError as error:
        raise _cannot_write(archive, error) from error
    return bundle


def unpack(archive: Path, target: Path) -> Bundle:
    """Verify `archive` and make the folder `target` of it: wholly there after a crash, or not.

    Raises what `open_bundle` raises, `Unavailable` when it cannot be written, and `InUse` when
    `target` exists: a bundle is immutable, so it is never written over.
    """
    if target.exists() or target.is_symlink():
        raise InUse(f"{target} exists already; choose another folder or remove it first")
    bundle = open_bundle(archive)
    try:
        _write_folder(bundle, target.absolute())
    except OSError as error:
        raise _cannot_write(target, error) from error
    return open_bundle(target)


def _members(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    yield MANIFEST, bundle.manifest_bytes
    listed = {file.path: file for file in bundle.manifest.files()}
    for path in sorted(listed):
        yield path, bundle.read(listed[path])


def _tar(members: Iterator[tuple[str, bytes]]) -> Iterator[bytes]:
    """POSIX ustar: a header block, the content in whole blocks, two empty blocks at the end."""
    for path, content in members:
        header = tarfile.TarInfo(path)
        header.size = len(content)
        header.mode = 0o644
        yield header.tobuf(tarfile.USTAR_FORMAT)
        yield content
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _write_compressed(pieces: list[bytes], archive: Path) -> None:
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    frame = compressor.compressobj(size=sum(map(len, pieces)))  # stated, so that readers can bound
    handle, name = tempfile.mkstemp(dir=archive.parent, prefix=f".{archive.name}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(frame.compress(piece))
            file.write(frame.flush())
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(archive)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(archive.parent)


def _write_folder(bundle: Bundle, target: Path) -> None:
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        for path, content in _members(bundle):
            place = partial / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        partial.chmod(0o755)
        for folder in [partial, *(entry for entry in partial.rglob("*") if entry.is_dir())]:
            sync_folder(folder)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(target.parent)


def _cannot_write(path: Path, error: OSError) -> Unavailable:
    said = error.strerror or str(error)
    return Unavailable(f"{path}: cannot write it: {said}; make room or choose another place")
