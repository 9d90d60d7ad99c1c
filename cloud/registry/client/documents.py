"""What a registry says of itself. Members that this program does not know are passed over."""

from pydantic import BaseModel, ConfigDict

from cloud.registry.documents import Head


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RegistryState(_Answer):
    name: str
    role: str  # "home" | "replica"
    head: Head | None = None
    behind: int | None = None  # entries that a replica knows of and lacks
    home: str | None = None  # its URL, of a replica


class TrustState(_Answer):
    """The newest version of each role's metadata, and what waits for more signatures."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Collected(_Answer):
    """What garbage collection removed, or would."""

    model_config = ConfigDict(frozen=True, extra="allow")
