"""The trusted metadata of one device, on its disk: refreshed over any transport, read offline."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from shared.disk import write_whole
from shared.errors import TooLarge, Unavailable, Unknown
from shared.trust.last_chain import BYTES_MAX as CHAIN_BYTES_MAX
from shared.trust.last_chain import chain_name
from shared.trust.names import ROOTS_MAX, bytes_max, file_name
from shared.trust.releases import Trusted

if TYPE_CHECKING:
    from shared.trust.walk import Keep, Walk, Want

Fetch = Callable[[str, int], Awaitable[bytes | None]]
"""`fetch(name, bytes_max)`: the registry's `/tuf/{name}`, read no further than `bytes_max` + 1;
None where it has no such file. Raises `Unavailable`."""


logging.getLogger("tuf").setLevel(logging.WARNING)  # it tells at "info" which key did not sign


class TrustStore:
    """One folder, one user at a time (the device's state lock)."""

    def __init__(self, folder: Path, pinned_root: bytes) -> None:
        """`pinned_root`: a `N.root.json` that came with the device. No older root, and nothing
        signed under older ones alone, is ever believed.
        """
        self._folder = folder
        self._pinned_root = pinned_root

    async def refresh(self, fetch: Fetch, model: str, now: datetime) -> Trusted:
        """Ask the registry what is released. What has been verified is on disk before this returns.

        Raises `NotTrusted`, `Malformed` or `TooLarge` (an attack, a fault, expiry, or a clock that
        cannot be right: keep what runs), `Unknown` (no such model), `Unavailable` (try later).
        """
        from shared.trust.walk import Want, walk  # noqa: PLC0415  cryptography: 0.3 s, 15 MB

        kept = await asyncio.to_thread(self._read, model)
        steps = walk(self._pinned_root, kept, model, now)
        answer: bytes | None = None
        while True:
            step = await asyncio.to_thread(_advance, steps, answer)
            if isinstance(step, Trusted):
                return step
            if isinstance(step, Want):
                answer = await fetch(step.name, step.bytes_max)
                if answer is not None and len(answer) > step.bytes_max:
                    raise TooLarge(
                        f"{step.name}: more than the {step.bytes_max} bytes that it may have"
                    )
            else:
                answer = None
                await asyncio.to_thread(self._write, step.name, step.content)

    async def load(self, model: str, now: datetime) -> Trusted:
        """What was trusted last, from disk alone; `stale` tells whether a new release may be taken.

        Raises `Unknown` when nothing is kept of this model, `NotTrusted` or `Malformed` when what
        is kept does not check out (refresh then repairs it).
        """
        from shared.trust.walk import remembered  # noqa: PLC0415  as above

        def look() -> Trusted:
            return remembered(self._pinned_root, self._read(model), self._last(model), model, now)

        return await asyncio.to_thread(look)

    def _last(self, model: str) -> bytes:
        content = self._file(self._folder / chain_name(model), CHAIN_BYTES_MAX)
        if content is None:
            raise Unknown(f"{self._folder}: nothing is kept of {model}; refresh it first")
        if len(content) > CHAIN_BYTES_MAX:
            raise TooLarge(f"{chain_name(model)}: over its {CHAIN_BYTES_MAX} bytes; refresh it")
        return content

    def _read(self, model: str) -> dict[str, bytes]:
        """What is kept for a walk; a broken file is found out by its signatures or its size."""
        names = ["timestamp.json", "snapshot.json", "targets.json", f"model-{model}.json"]
        found: dict[str, bytes] = {}
        for name in [*self._roots(), *names]:
            content = self._file(self._folder / name, bytes_max(_role(name)))
            if content is not None:
                found[name] = content
        return found

    def _roots(self) -> list[str]:
        """Names of the newest root files: as many as a walk may pass."""
        try:
            found = [path.name for path in self._folder.glob("*.root.json")]
        except OSError as error:
            raise _unreadable(self._folder, error) from error
        numbers = sorted(int(number) for name in found if (number := name[:-10]).isdecimal())
        return [file_name("root", number) for number in numbers[-ROOTS_MAX:]]

    @staticmethod
    def _file(path: Path, limit: int) -> bytes | None:
        try:
            with path.open("rb") as file:
                return file.read(limit + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error) from error

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self._folder / name, content)


def _advance(steps: "Walk", answer: bytes | None) -> "Want | Keep | Trusted":
    """One step; the walk's result when it ends (StopIteration may not cross a thread)."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        done: Trusted = end.value
        return done


def _role(name: str) -> str:
    """Of a kept file: roots alone are kept by their number."""
    return "root" if name.endswith(".root.json") else name.removesuffix(".json")


def _unreadable(path: Path, error: OSError) -> Unavailable:
    said = error.strerror or str(error)
    return Unavailable(f"{path}: cannot read it: {said}; see to the disk, then try again")
