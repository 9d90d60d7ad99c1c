"""Pack a bundle into one `.hyb` file, the same bytes for the same content; unpack it atomically."""

import os
import shutil
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

import zstandard

from shared.bundle.files import MANIFEST, FolderFiles
from shared.bundle.reader import Bundle, open_bundle, verify
from shared.errors import InUse, Malformed

_LEVEL = 12
_BLOCK = tarfile.BLOCKSIZE


def pack(folder: Path, archive: Path) -> Bundle:
    """Verify the bundle in `folder`, then write it to `archive` (replaced only when complete).

    Reproducible for one version of zstandard: sorted members, no times, no owners.
    """
    if not folder.is_dir():
        raise Malformed(f"{folder}: there is no such folder; name a bundle's folder")
    bundle = verify(FolderFiles(folder))
    members = _members(bundle, folder)
    with tempfile.NamedTemporaryFile(
        dir=archive.absolute().parent, prefix=f".{archive.name}.", delete=False
    ) as file:
        try:
            compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            with compressor.stream_writer(file, size=_tar_size(members), closefd=False) as stream:
                with tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
                    for path, content in members:
                        tar.addfile(_plain(path, len(content)), BytesIO(content))
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)
            Path(file.name).replace(archive)
        except ValueError as error:  # tarfile: a name that the plain format cannot hold
            Path(file.name).unlink(missing_ok=True)
            raise Malformed(f"{folder}: {error}; use shorter file names") from error
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    _sync_folder(archive.absolute().parent)
    return bundle


def unpack(archive: Path, target: Path) -> Bundle:
    """Verify `archive` and make the folder `target` of it: wholly there after a crash, or not.

    Raises `InUse` when `target` exists: a bundle is immutable, so it is never written over.
    """
    if target.exists() or target.is_symlink():
        raise InUse(f"{target} exists already; choose another folder or remove it first")
    bundle = open_bundle(archive)
    parent = target.absolute().parent
    partial = Path(tempfile.mkdtemp(dir=parent, prefix=f".{target.name}."))
    try:
        for path, content in _members(bundle, archive):
            place = partial / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        partial.chmod(0o755)
        for folder in [partial, *(entry for entry in partial.rglob("*") if entry.is_dir())]:
            _sync_folder(folder)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync_folder(parent)
    return open_bundle(target)


def _members(bundle: Bundle, source: Path) -> list[tuple[str, bytes]]:
    listed = {file.path: file for file in bundle.manifest.files()}
    contents = [(path, bundle.read(listed[path])) for path in sorted(listed)]
    return [(MANIFEST, bundle.manifest_bytes), *contents]


def _tar_size(members: list[tuple[str, bytes]]) -> int:
    blocks = sum(1 + -(-len(content) // _BLOCK) for _, content in members) + 2
    return -(-blocks * _BLOCK // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def _plain(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size = size
    member.mode = 0o644
    return member


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
