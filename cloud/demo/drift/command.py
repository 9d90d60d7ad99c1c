"""`hybridge ...` as an operator types it, in a process of its own."""

import asyncio
import sys
from pathlib import Path

from shared.errors import Unavailable


class Hybridge:
    """The registry that is asked, and where its keys lie."""

    def __init__(self, registry: str, keys: Path) -> None:
        self._registry, self._keys = registry, keys

    async def ask(self, role: str, *arguments: str | Path) -> None:
        """Of the registry, as this role. Raises `Unavailable` with what the command said."""
        key = self._keys / "api" / f"{role}.key"
        await hybridge(*arguments, "--registry", self._registry, "--key-file", key)


async def hybridge(*arguments: str | Path) -> str:
    """What it printed. Raises `Unavailable` with what it said when it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cloud.cli", *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if process.returncode:
        command = " ".join(map(str, arguments))
        words = (err or out).decode(errors="replace").strip()[-1000:]
        raise Unavailable(f"hybridge {command}: exit code {process.returncode}: {words}")
    return out.decode(errors="replace")
