"""Read a `.hyb` archive (a tar in one zstandard frame) without ever writing a file.

The archive is hostile until its hashes have been checked: every bound is enforced while streaming,
nothing but plain files under plain names is accepted, and a cut or lengthened archive is refused.
"""

import tarfile
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from shared.bundle.files import BYTES_MAX, MEMBERS_MAX
from shared.bundle.manifest import is_plain_path
from shared.errors import Malformed, NotTrusted, TooLarge

_CHUNK = 1 << 20
_WINDOW_MAX = 1 << 27  # what zstandard's highest level asks for
_HEADER = 18  # bytes: the longest zstandard frame header
_TAR_OVERHEAD = 1024 * MEMBERS_MAX + 10240  # headers, padding, the last record


def read_archive(path: Path, *, bytes_max: int = BYTES_MAX) -> dict[str, bytes]:
    """The members by path. Raises `Malformed`, `NotTrusted` or `TooLarge`, naming the member."""
    where = str(path)
    try:
        with path.open("rb") as file:
            return _members(file, where, bytes_max)
    except OSError as error:
        raise Malformed(f"{where}: cannot read it: {error.strerror}") from error


def _members(file: BinaryIO, where: str, bytes_max: int) -> dict[str, bytes]:
    stated = _stated_size(file, where)
    if stated > bytes_max + _TAR_OVERHEAD:
        raise TooLarge(f"{where}: unpacks to {stated} bytes; at most {bytes_max} are accepted")
    stream = _Bounded(file, stated, where)
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as tar:
            for member in tar:
                _refuse_unsafe(member, members, where)
                content = tar.extractfile(member)
                members[member.name] = b"" if content is None else content.read()
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise Malformed(
            f"{where}: not a readable bundle archive: {error}; copy it again, or make it with "
            "`hybridge model pack`"
        ) from error
    stream.finish()
    return members


def _refuse_unsafe(member: tarfile.TarInfo, members: dict[str, bytes], where: str) -> None:
    name = member.name
    if not is_plain_path(name):
        raise NotTrusted(f"{where}: member {name[:80]!r} is not a plain relative path")
    if member.type != tarfile.REGTYPE or member.pax_headers:
        raise NotTrusted(
            f"{where}: member {name} is not a plain file (tar type {member.type!r}); "
            "make archives with `hybridge model pack`"
        )
    folded = name.casefold()
    for other in (path.casefold() for path in members):
        if folded == other:
            raise NotTrusted(f"{where}: member {name} stands in it twice")
        if folded.startswith(other + "/") or other.startswith(folded + "/"):
            raise NotTrusted(f"{where}: member {name} is a file and a folder at once")
    if len(members) >= MEMBERS_MAX:
        raise TooLarge(f"{where}: more than {MEMBERS_MAX} members; is it a bundle?")


def _stated_size(file: BinaryIO, where: str) -> int:
    header = file.read(_HEADER)
    file.seek(0)
    try:
        size = zstandard.frame_content_size(header)
    except zstandard.ZstdError as error:
        raise Malformed(f"{where}: not a bundle archive (no zstandard frame)") from error
    if size < 0:
        raise Malformed(
            f"{where}: does not say its unpacked size; make archives with `hybridge model pack`"
        )
    return size


class _Bounded:
    """The unpacked stream: never more than was stated, and at the end not less."""

    def __init__(self, file: BinaryIO, stated: int, where: str) -> None:
        engine = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX)
        self._reader = engine.stream_reader(file, read_across_frames=True)
        self._left = stated
        self._where = where

    def finish(self) -> None:
        """Refuse data after the end of the tar, and a frame that is shorter than it said."""
        while part := self.read(_CHUNK):
            if part.count(0) != len(part):
                raise Malformed(f"{self._where}: data follows the end of the archive")
        if self._left:
            raise Malformed(
                f"{self._where}: cut short, {self._left} bytes are missing; copy the archive again"
            )

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; tarfile reads on while it lacks some, until there are none."""
        try:
            part = self._reader.read(min(size, _CHUNK))
        except zstandard.ZstdError as error:
            raise Malformed(f"{self._where}: damaged archive: {error}; copy it again") from error
        if len(part) > self._left:
            raise TooLarge(
                f"{self._where}: unpacks to more than it states; do not trust its source"
            )
        self._left -= len(part)
        return part
