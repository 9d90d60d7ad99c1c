"""A folder of checkpoints: the newest N, each whole or not there, each verified before it is used."""

import errno
import io
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cloud.training.recipes.checkpoint_file import BYTES_MAX, framed, verified
from cloud.training.recipes.failing import BadCheckpoint
from shared.disk import NoRoom, write_whole
from shared.errors import HybridgeError, NotTrusted, Refused, Unavailable

CHECKPOINT_BYTES_MAX = BYTES_MAX
_NAME = re.compile(r"step-(\d{12})\.ckpt")
State = dict[str, Any]
"""What `torch.load(weights_only=True)` gives: tensors, numbers, text, lists and dictionaries."""


@dataclass(frozen=True, slots=True)
class Resumed:
    step: int
    payload: bytes
    """`loads` reads it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The newest checkpoint that verifies, and why newer ones do not, in words."""

    resumed: Resumed | None
    refused: tuple[str, ...]


class Checkpoints:
    """`key`: 64 hexadecimal digits of the run; a file with another is refused."""

    def __init__(self, folder: Path, key: str, kept: int) -> None:
        self._folder, self._key, self._kept = folder, key, kept
        self._refused: set[Path] = set()

    def save(self, step: int, state: State) -> Path:
        """Raises `NoRoom` with what to free, another `Unavailable` where it cannot be written, `BadCheckpoint`
        where it is too big.
        """
        path = self._folder / f"step-{step:012d}.ckpt"
        content = framed(self._key, step, dumps(state))
        if len(content) > CHECKPOINT_BYTES_MAX:
            raise BadCheckpoint(
                f"{path}: {len(content)} bytes is over {CHECKPOINT_BYTES_MAX}; the network is too big"
            )
        try:
            write_whole(path, content)
        except NoRoom as error:
            raise NoRoom(
                f"{path}: no room for {len(content)} bytes; free that much on its disk, or let the "
                f"worker keep fewer than {self._kept} checkpoints"
            ) from error
        # What was refused takes no good one's place, and no later start reads it again.
        for bad in self._refused - {path}:
            bad.unlink(missing_ok=True)
        self._refused.clear()
        for old in list(_numbered(self._folder))[self._kept :]:
            old.unlink(missing_ok=True)
        return path

    def newest(self) -> Found:
        """Raises `Unavailable` where the folder cannot be read."""
        refused: list[str] = []
        try:
            for partial in self._folder.glob(".step-*.ckpt.tmp"):
                partial.unlink(missing_ok=True)
            for path in _numbered(self._folder):
                try:
                    return Found(self._read(path), tuple(refused))
                except HybridgeError as error:
                    refused.append(str(error))
                    self._refused.add(path)
        except OSError as error:
            raise Unavailable(
                f"{self._folder}: {error.strerror}; make it a folder that the worker may read, or see to "
                "its disk"
            ) from error
        return Found(None, tuple(refused))

    def _read(self, path: Path) -> Resumed:
        checkpoint = verified(_content(path), path.name)
        if checkpoint.key != self._key:
            raise NotTrusted(f"{path.name}: is of another run or other data; remove it")
        if checkpoint.step != _step(path):
            raise NotTrusted(f"{path.name}: is of step {checkpoint.step}; remove it")
        loads(checkpoint.payload, path.name)
        return Resumed(checkpoint.step, checkpoint.payload)


def newest_step(folder: Path) -> int | None:
    """Of every run's checkpoints below `folder`; for people. None: there is none that verifies."""
    for path in sorted(folder.glob("**/step-*.ckpt"), key=_step, reverse=True):
        try:
            return verified(_content(path), path.name).step
        except (HybridgeError, OSError):
            continue
    return None


def dumps(state: State) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def loads(payload: bytes, where: str) -> State:
    """Raises `NotTrusted` when it holds anything but plain data."""
    try:
        state = torch.load(io.BytesIO(payload), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise NotTrusted(f"{where}: torch does not read it: {first}; remove it") from error
    if not isinstance(state, dict):
        raise NotTrusted(f"{where}: holds a {type(state).__name__}, no state; remove it")
    return state


def _content(path: Path) -> bytes:
    size = path.stat().st_size
    if size > CHECKPOINT_BYTES_MAX:
        raise Refused(f"{path.name}: {size} bytes is over {CHECKPOINT_BYTES_MAX}; remove it")
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        raise Refused(f"{path.name}: {error.strerror}; fix its rights or its disk") from error


def _numbered(folder: Path) -> Iterator[Path]:
    """Newest first."""
    if not folder.exists():
        return
    named = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    yield from sorted(named, key=_step, reverse=True)


def _step(path: Path) -> int:
    name = _NAME.fullmatch(path.name)
    return int(name[1]) if name else -1
