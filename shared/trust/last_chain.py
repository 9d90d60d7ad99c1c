"""The last whole chain that checked out, as one file: what a device believes while it is offline.

The single files of a walk may be of two states of the registry (a cut, a power cut, a refusal half
way); this one is replaced whole at the end, so that it always checks out by itself.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.config import in_words
from shared.errors import Malformed
from shared.trust import plain_json
from shared.trust.names import (
    MODEL_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
    TARGETS_BYTES_MAX,
    TIMESTAMP_BYTES_MAX,
)

BYTES_MAX = 2 * (
    TIMESTAMP_BYTES_MAX + SNAPSHOT_BYTES_MAX + TARGETS_BYTES_MAX + MODEL_BYTES_MAX
)  # quotes within text are two bytes


class LastChain(BaseModel):
    """The files' own bytes, as text: hashes in the metadata are of these."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    format: Literal[1] = 1
    root_version: Annotated[int, Field(gt=0)]
    timestamp: str
    snapshot: str
    targets: str
    role: str

    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()


def chain_name(model: str) -> str:
    return f"chain-{model}.json"


def pack(root_version: int, files: Mapping[str, bytes], role: str) -> bytes:
    """`files`: verified metadata by role, so UTF-8."""
    return LastChain(
        root_version=root_version,
        timestamp=files["timestamp"].decode(),
        snapshot=files["snapshot"].decode(),
        targets=files["targets"].decode(),
        role=files[role].decode(),
    ).to_bytes()


def unpack(content: bytes, where: str) -> LastChain:
    """Raises `Malformed`."""
    try:
        return LastChain.model_validate(plain_json.parse(content, where))
    except ValidationError as error:
        raise Malformed(f"{where}: {in_words(error)[:300]}; refresh it") from error
