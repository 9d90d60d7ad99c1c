"""The bundle that a job made, out of the artifact store."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cloud.registry.artifacts.blobs import Blobs
from cloud.training.queue.queue import JobQueue
from cloud.training.worker.data_set import written
from shared.errors import Conflict, NotTrusted

_BYTES_MAX: Final = 2 * 1024**3


class JobBundles:
    def __init__(self, queue: JobQueue, blobs: Blobs) -> None:
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
            found = await asyncio.to_thread(written, self._blobs, sha256, path, _BYTES_MAX)
            if found != sha256:
                raise NotTrusted(f"job {job}: its bundle is another file than it said")
            yield path
