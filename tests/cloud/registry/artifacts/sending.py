"""A process that takes an upload from its stdin, until it is killed.

    python -m tests.cloud.registry.artifacts.sending STATE_DIR SHA256 TOTAL_BYTES OFFSET

It says "at N" for each mebibyte that it has asked for, and "done N" at the end.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings

PIECE = 1 << 20


async def _stdin() -> AsyncIterator[bytes]:
    at = 0
    while piece := await asyncio.to_thread(sys.stdin.buffer.read, PIECE):
        yield piece
        at += len(piece)
        print("at", at, flush=True)


async def _main(state_dir: str, sha256: str, total: str, offset: str) -> None:
    artifacts = Artifacts(ArtifactSettings(), Path(state_dir))
    print(
        "done",
        await artifacts.uploads.append(sha256, int(total), int(offset), _stdin()),
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
