"""The trusted metadata of one device, on its disk: refreshed over any transport, read offline."""

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import Malformed, TooLarge, Unavailable, Unknown
from shared.trust.last_chain import BYTES_MAX as CHAIN_BYTES_MAX
from shared.trust.last_chain import chain_name
from shared.trust.names import bytes_max, parse_file_name
from shared.trust.releases import Trusted

if TYPE_CHECKING:
    from shared.trust.walk import Keep, Walk, Want

Fetch = Callable[[str, int], Awaitable[bytes | None]]
"""`fetch(name, bytes_max)`: the registry's `/tuf/{name}`, read no further than `bytes_max` + 1;
None where it has no such file. Raises `Unavailable`."""

_FILES_MAX = 300  # roots of 256 versions, and a few models


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

        kept = await asyncio.to_thread(self._read)
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
            return remembered(self._pinned_root, self._read(), self._last(model), model, now)

        return await asyncio.to_thread(look)

    async def bundle_signature(self, model: str, version: str) -> bytes:
        """What stands beside a copy of the bundle, to check it by, offline (`signature.py`).

        Raises `Unknown` when nothing is kept of this model.
        """
        from shared.trust.signature import signature_of  # noqa: PLC0415  as above

        def make() -> bytes:
            return signature_of(model, version, self._pinned_root, self._read(), self._last(model))

        return await asyncio.to_thread(make)

    def _last(self, model: str) -> bytes:
        content = self._file(self._folder / chain_name(model), CHAIN_BYTES_MAX)
        if content is None:
            raise Unknown(f"{self._folder}: nothing is kept of {model}; refresh it first")
        if len(content) > CHAIN_BYTES_MAX:
            raise TooLarge(f"{chain_name(model)}: over its {CHAIN_BYTES_MAX} bytes; refresh it")
        return content

    def _read(self) -> dict[str, bytes]:
        """Every kept file within its bound; a broken one is found out by its signatures."""
        found: dict[str, bytes] = {}
        try:
            paths = sorted(self._folder.glob("*.json"))
        except OSError as error:
            raise _cannot("read", self._folder, error) from error
        for path in paths[:_FILES_MAX]:
            limit = bytes_max(_role(path.name))
            content = None if path.name.startswith("chain-") else self._file(path, limit)
            if content is not None:
                found[path.name] = content
        return found

    @staticmethod
    def _file(path: Path, limit: int) -> bytes | None:
        try:
            with path.open("rb") as file:
                return file.read(limit + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _cannot("read", path, error) from error

    def _write(self, name: str, content: bytes) -> None:
        """Whole or not at all, whatever fails when."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            number, partial = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                Path(partial).replace(self._folder / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(partial).unlink()
                raise
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _cannot("write", self._folder / name, error) from error


def _advance(steps: "Walk", answer: bytes | None) -> "Want | Keep | Trusted":
    """One step; the walk's result when it ends (StopIteration may not cross a thread)."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        done: Trusted = end.value
        return done


def _role(name: str) -> str:
    with contextlib.suppress(Malformed):
        return parse_file_name(name)[0]
    return name.removesuffix(".json")


def _cannot(what: str, path: Path, error: OSError) -> Unavailable:
    said = error.strerror or str(error)
    return Unavailable(f"{path}: cannot {what} it: {said}; see to the disk, then try again")
