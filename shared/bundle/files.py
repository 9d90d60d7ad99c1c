"""Where a bundle's bytes lie: a folder, or the members of an archive in memory."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from shared.errors import Malformed, NotTrusted, TooLarge

MANIFEST = "manifest.json"
MEMBERS_MAX = 256
BYTES_MAX = 512 * 1024 * 1024  # of all files together; an edge model is far below it


class Files(Protocol):
    """Bytes by relative path. What they say is not trusted: the manifest's hashes decide."""

    @property
    def where(self) -> str:
        """What error messages call it: the path that the user named."""
        ...

    def paths(self) -> frozenset[str]: ...

    def size(self, path: str) -> int:
        """Raises `Malformed` when there is no such file."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes:
        """Raises `TooLarge` over `bytes_max`, `Malformed` when there is no such file."""
        ...


class FolderFiles:
    """A folder on disk. Symbolic links and other special files are refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)

    def paths(self) -> frozenset[str]:
        try:
            return frozenset(self._walk())
        except OSError as error:
            raise Malformed(f"{self.where}: cannot list it: {error.strerror}") from error

    def _walk(self) -> set[str]:
        found: set[str] = set()
        pending = [self._folder]
        while pending:
            for entry in pending.pop().iterdir():
                path = entry.relative_to(self._folder).as_posix()
                mode = entry.lstat().st_mode
                if stat.S_ISDIR(mode):
                    pending.append(entry)
                elif stat.S_ISREG(mode):
                    found.add(path)
                else:
                    raise NotTrusted(
                        f"{self.where}: {path} is a link or a special file; replace it by the file"
                    )
                if len(found) + len(pending) > MEMBERS_MAX:
                    raise TooLarge(f"{self.where}: more than {MEMBERS_MAX} files; is it a bundle?")
        return found

    def size(self, path: str) -> int:
        try:
            return (self._folder / path).lstat().st_size
        except OSError as error:
            raise Malformed(f"{self.where}: cannot read {path}: {error.strerror}") from error

    def read(self, path: str, bytes_max: int) -> bytes:
        try:
            with (self._folder / path).open("rb") as file:
                content = file.read(bytes_max + 1)
        except OSError as error:
            raise Malformed(f"{self.where}: cannot read {path}: {error.strerror}") from error
        return _within(content, bytes_max, f"{self.where}: {path}")


class MemberFiles:
    """An archive's members, already in memory."""

    def __init__(self, where: str, members: Mapping[str, bytes]) -> None:
        self.where = where
        self._members = members

    def paths(self) -> frozenset[str]:
        return frozenset(self._members)

    def size(self, path: str) -> int:
        return len(self.read(path, BYTES_MAX))

    def read(self, path: str, bytes_max: int) -> bytes:
        content = self._members.get(path)
        if content is None:
            raise Malformed(f"{self.where}: there is no {path}")
        return _within(content, bytes_max, f"{self.where}: {path}")


def _within(content: bytes, bytes_max: int, what: str) -> bytes:
    if len(content) > bytes_max:
        raise TooLarge(f"{what} is over the {bytes_max} bytes that it may have")
    return content
