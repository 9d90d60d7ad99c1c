"""Make a delta of two artifacts, and store it where it pays off."""

import asyncio

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.deltas.encoder import compressed_bytes, encode, worth_it
from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.documents import Delta
from shared.delta.decoder import apply
from shared.errors import TooLarge


class DeltaMaker:
    def __init__(self, artifacts: Artifacts, settings: DeltaSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self._one_at_a_time = asyncio.Semaphore(1)  # each takes three files' memory, and a core

    async def make(self, from_sha256: str, to_sha256: str) -> Delta | None:
        """None: the whole file is nearly as short. The caller puts a delta into the catalog.

        Raises `Unknown`, `NotTrusted` (an artifact is corrupt), `Unavailable`. Packs in a thread,
        which lets the event loop run: zstandard and numpy release the interpreter.
        """
        async with self._one_at_a_time:
            limit = self._settings.bytes_max
            try:
                old = await self._artifacts.read(from_sha256, limit)
                new = await self._artifacts.read(to_sha256, limit)
            except TooLarge:
                return None
            delta = await asyncio.to_thread(_packed, old, new, to_sha256)
            if delta is None:
                return None
            sha256 = await self._artifacts.put_bytes(delta)
        return Delta(from_sha256=from_sha256, to_sha256=to_sha256, sha256=sha256, bytes=len(delta))


def _packed(old: bytes, new: bytes, new_sha256: str) -> bytes | None:
    """What is published has been applied once."""
    delta = encode(old, new)
    if not worth_it(len(delta), compressed_bytes(new)):
        return None
    apply(old, delta, bytes_max=len(new), sha256=new_sha256)
    return delta
