"""Which role this registry has, in one file that is replaced whole: a restart comes up as it says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from cloud.document import Document
from cloud.registry.replication.settings import BaseUrl
from shared.config import in_words
from shared.disk import write_whole
from shared.errors import Malformed, Unavailable

RoleName = Literal["home", "replica", "fenced"]
_FILE = "role.json"
_BYTES_MAX = 64 * 1024


class RegionRole(Document):
    """`why` is for people."""

    role: RoleName
    epoch: int = 0  # of the log when it took this role
    homes: tuple[BaseUrl, ...] = ()  # whom a replica follows, or a fenced one is told to ask
    why: str = ""
    since: float = 0.0  # Unix seconds
    divergent: str | None = None  # the file with the entries that only this one has
    fork_seq: int | None = None  # the last entry that it shares with the home


@dataclass(frozen=True, slots=True)
class RoleFile:
    """Without a file the settings decide: a registry with a `home` section is a replica."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / _FILE

    def read(self) -> RegionRole | None:
        """None: never switched. Raises `Malformed`, `Unavailable`: guessing could make two homes."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"{self.path}: {error.strerror}") from error
        try:
            return RegionRole.model_validate_json(content)
        except ValidationError as error:
            raise Malformed(
                f"{self.path}: {in_words(error)}; it says which registry is home: restore it from a "
                "backup, or remove it where the settings are to decide"
            ) from error

    def write(self, role: RegionRole) -> None:
        """Stands a power cut. Raises `Unavailable`."""
        write_whole(self.path, json.dumps(role.model_dump(mode="json"), indent=1).encode() + b"\n")
