"""A private folder with what one evaluation needs, gone when it ends."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cloud.registry.documents import ModelVersion
from shared.bundle.files import MANIFEST
from shared.bundle.manifest import is_plain_path
from shared.bundle.reader import Bundle, open_bundle
from shared.errors import Malformed, TooLarge, Unavailable
from shared.imaging.npy import parse_npy


class Store(Protocol):
    """What is asked of `cloud.registry.artifacts`."""

    async def read(self, sha256: str, bytes_max: int) -> bytes: ...


class Workspace:
    """Raises `Unavailable` where it cannot write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    @classmethod
    @asynccontextmanager
    async def made(cls) -> AsyncIterator["Workspace"]:
        """In the system's folder for temporary files (TMPDIR)."""
        try:
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hybridge-evaluation-"))
        except OSError as error:
            raise Unavailable(f"cannot make a folder to evaluate in: {error.strerror}") from error
        try:
            yield cls(folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def bundle(self, version: ModelVersion, store: Store, bytes_max: int) -> Bundle:
        """Copied out of the store and verified. Raises what `Store.read` and `open_bundle` do."""
        what = f"{version.model} {version.version}"
        if (total := sum(file.bytes for file in version.files)) > bytes_max:
            raise TooLarge(f"{what}: its files have {total} bytes; at most {bytes_max} here")
        folder = self._folder / f"{version.model}-{version.version}"
        manifest = await store.read(version.manifest.sha256, version.manifest.bytes)
        await asyncio.to_thread(_write, folder / MANIFEST, manifest)
        for file in version.files:
            if not is_plain_path(file.path):
                raise Malformed(f"{what}: {file.path[:80]!r} is no plain relative path")
            if file.path == MANIFEST:
                continue
            content = await store.read(file.sha256, file.bytes)
            await asyncio.to_thread(_write, folder / file.path, content)
        return await asyncio.to_thread(open_bundle, folder)

    async def put(self, array: NDArray[np.generic]) -> str:
        """As a new .npy file; its path."""
        path = self.new_file()
        await asyncio.to_thread(_save, Path(path), array)
        return path

    def new_file(self) -> str:
        """A path that nothing has been written to."""
        self._files += 1
        return str(self._folder / f"{self._files}.npy")

    async def take(self, path: str, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
        """What a model's process wrote, and then its file is gone. None when it is not that."""
        size = int(np.prod(shape)) * 4
        return await asyncio.to_thread(_taken, Path(path), shape, size + 1024)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise Unavailable(f"{path.name}: cannot write it: {error.strerror}; make room") from error


def _save(path: Path, array: NDArray[np.generic]) -> None:
    try:
        np.save(path, array, allow_pickle=False)
    except OSError as error:
        raise Unavailable(f"{path.name}: cannot write it: {error.strerror}; make room") from error


def _taken(path: Path, shape: tuple[int, ...], bytes_max: int) -> NDArray[np.float32] | None:
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
        path.unlink()
        array = parse_npy(content, path.name)
    except (OSError, Malformed):
        return None
    fits = array.dtype == np.float32 and array.shape == shape
    return array.astype(np.float32, copy=False) if fits else None
