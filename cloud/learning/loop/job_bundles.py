"""The bundle that a job made, out of the artifact store."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.documents import Job
from shared.disk import writing
from shared.errors import Conflict, NotTrusted, TooLarge

_BYTES_MAX: Final = 2 * 1024**3


class Queue(Protocol):
    """Of training jobs."""

    async def job(self, job_id: str) -> Job: ...


class JobBundles:
    def __init__(self, queue: Queue, blobs: Blobs) -> None:
        self._queue, self._blobs = queue, blobs

    @asynccontextmanager
    async def archive(self, job: str) -> AsyncIterator[Path]:
        """Its `.hyb` file, for as long as the block. Raises `Unknown`, `Conflict` where it made none,
        `NotTrusted`, `TooLarge`, `Unavailable`.
        """
        sha256 = (await self._queue.job(job)).bundle_sha256
        if sha256 is None:
            raise Conflict(f"job {job} left no bundle; look at its log")
        with tempfile.TemporaryDirectory(prefix="hybridge-bundle-") as folder:
            path = Path(folder) / "made.hyb"
            await asyncio.to_thread(_write, self._blobs, sha256, path, f"job {job}: its bundle")
            yield path


def _write(blobs: Blobs, sha256: str, target: Path, where: str) -> None:
    digest, size = hashlib.sha256(), 0
    with writing(target), target.open("wb") as file:
        for part in blobs.parts(sha256):
            size += len(part)
            if size > _BYTES_MAX:
                raise TooLarge(f"{where} is over {_BYTES_MAX} bytes")
            digest.update(part)
            file.write(part)
    if digest.hexdigest() != sha256:
        raise NotTrusted(f"{where} is another file than it said")
