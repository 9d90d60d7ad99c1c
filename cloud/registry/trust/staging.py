"""Metadata that waits for more signatures, one file a role, in a folder of this registry alone.

It is no part of the log: after a promotion people hand it in again.
"""

from dataclasses import dataclass
from pathlib import Path

from shared.disk import write_whole
from shared.errors import Overloaded, Unavailable
from shared.trust.names import bytes_max, parse_role


@dataclass(frozen=True, slots=True)
class Staging:
    folder: Path
    files_max: int

    def read(self) -> dict[str, bytes]:
        """By role. Raises `Unavailable`."""
        found: dict[str, bytes] = {}
        try:
            for path in sorted(self.folder.glob("*.json")):
                role = parse_role(path.name.removesuffix(".json"))
                with path.open("rb") as file:
                    found[role] = file.read(bytes_max(role) + 1)
        except OSError as error:
            raise Unavailable(f"{self.folder}: {error.strerror}") from error
        return found

    def write(self, role: str, content: bytes) -> None:
        """Raises `Overloaded` when too many wait, `Unavailable`."""
        path = self._path(role)
        if role not in (waiting := self.read()) and len(waiting) >= self.files_max:
            raise Overloaded(
                f"{self.files_max} files wait for signatures already; discard some of them"
            )
        write_whole(path, content)

    def remove(self, role: str) -> None:
        """One that is not there is fine. Raises `Unavailable`."""
        try:
            self._path(role).unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"{self._path(role)}: {error.strerror}") from error

    def _path(self, role: str) -> Path:
        return self.folder / f"{parse_role(role)}.json"
